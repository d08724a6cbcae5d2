{{/* Where run folders lie. */}}
{{- define "parley.claim" -}}
{{ .Values.storage.claim | default (printf "%s-runs" .Release.Name) }}
{{- end -}}

{{/* What every pod has: the folder that all see, and enough shared memory. Called with (dict "all" $ "size" ...). */}}
{{- define "parley.volumes" -}}
- name: runs
  persistentVolumeClaim: {claimName: {{ include "parley.claim" .all }}}
- name: shm
  emptyDir: {medium: Memory, sizeLimit: {{ .size }}}
{{- end -}}

{{- define "parley.image" -}}
{{ printf "%s:%s" .Values.image.repository (toString .Values.image.tag) | quote }}
{{- end -}}

{{- define "parley.container" -}}
image: {{ include "parley.image" . }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
env:
  # Models are made and downloaded once, where every node can read them.
  - {name: PARLEY_CACHE, value: /shared/runs/.cache/parley}
  - {name: HF_HOME, value: /shared/runs/.cache/huggingface}
  # So long `ray job stop` waits for a run to close; by default it kills after 3 seconds.
  - {name: RAY_JOB_STOP_WAIT_TIME_S, value: "60"}
  # Ray's workers run at nice 15 else, and its GCS remembers 100,000 calls.
  - {name: RAY_worker_niceness, value: "0"}
  - {name: RAY_task_events_max_num_task_in_gcs, value: "2000"}
  {{- with .Values.env }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with .Values.envFrom }}
envFrom: {{- toYaml . | nindent 2 }}
{{- end }}
volumeMounts:
  - {name: runs, mountPath: /shared/runs}
  - {name: shm, mountPath: /dev/shm}
{{- end -}}

{{- define "parley.secrets" -}}
{{- with .Values.imagePullSecrets -}}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* By which one release's pods are told from another's. */}}
{{- define "parley.labels" -}}
{app: parley, app.kubernetes.io/instance: {{ .Release.Name | quote }}}
{{- end -}}

{{- define "parley.cluster" -}}
rayVersion: {{ .Values.rayVersion | quote }}
# KubeRay makes a secret with a random token and hands it to every container.
authOptions: {mode: token}
headGroupSpec:
  rayStartParams: {dashboard-host: 0.0.0.0, num-cpus: "0"}
  template:
    metadata:
      labels: {{ include "parley.labels" . }}
    spec:
      {{- include "parley.secrets" . | nindent 6 }}
      securityContext: {fsGroup: 1000}
      containers:
        - name: ray-head
          workingDir: /shared  # where a command finds `runs`
          {{- include "parley.container" . | nindent 10 }}
          ports:
            - {containerPort: 6379, name: gcs}
            - {containerPort: 8265, name: dashboard}
            - {containerPort: 8080, name: metrics}
          resources:
            limits: &head {cpu: {{ .Values.head.cpu | quote }}, memory: {{ .Values.head.memory }}}
            requests: *head
      volumes:
        {{- include "parley.volumes" (dict "all" . "size" .Values.head.shm) | nindent 8 }}
workerGroupSpecs:
  - groupName: workers
    replicas: {{ .Values.workers.replicas }}
    minReplicas: {{ .Values.workers.replicas }}
    maxReplicas: {{ .Values.workers.replicas }}
    rayStartParams: {}
    template:
      metadata:
        labels: {{ include "parley.labels" . }}
      spec:
        {{- include "parley.secrets" . | nindent 8 }}
        securityContext: {fsGroup: 1000}
        {{- with .Values.workers.nodeSelector }}
        nodeSelector: {{- toYaml . | nindent 10 }}
        {{- end }}
        {{- with .Values.workers.tolerations }}
        tolerations: {{- toYaml . | nindent 10 }}
        {{- end }}
        containers:
          - name: ray-worker
            workingDir: /shared
            {{- include "parley.container" . | nindent 12 }}
            ports:
              - {containerPort: 8080, name: metrics}
            resources:
              limits: &worker
                cpu: {{ .Values.workers.cpu | quote }}
                memory: {{ .Values.workers.memory }}
                {{- if .Values.workers.gpus }}
                nvidia.com/gpu: {{ .Values.workers.gpus | quote }}
                {{- end }}
              requests: *worker
        volumes:
          {{- include "parley.volumes" (dict "all" . "size" .Values.workers.shm) | nindent 10 }}
{{- end -}}
