"""Metrics of play, learning and weight sync: the loop's own, the learner's, the fleet's, the ledger's."""

from __future__ import annotations

from cluster.record.metric_list.metric import HIGHER, LOWER, Metric

SECTIONS = {  # first word of a name -> what has such names
    "rollout": "The batch that an update learned from.",
    "evaluation": "Held-out games, on the lines of updates that were evaluated.",
    "learner": "The learner's update.",
    "seconds": "Where the time went. A line counts from the line before it, so what is done after a line is written, "
    "such as its checkpoint, is on the next line. The stages add up to `seconds/update`.",
    "sync": "The weight sync after the update.",
    "failures": "Episodes that failed, counted since the start of the run.",
    "ledger": "Tickets of training episodes, counted since the start of the run, resumed or not.",
    "tokens": "Where each token that the policy sampled went, since the start of the run, resumed or not: sampled = "
    "trained + evaluated + waiting + playing + dropped.",
    "record": "The games that the run folder keeps (`record.episodes`), since the start or the resume of the run.",
    "fleet": "The rollout workers, all together. Tokens are counted since the start of the workers there are.",
    "reward": "The reward service and the state of its shaper. Counts and seconds are those of its process.",
}

STAGE_SECONDS = ("parley_stage_seconds",)
WHERE_TIME_GOES = "Where an update's time goes"


def _stage(name: str, meaning: str) -> Metric:
    return Metric(f"seconds/{name}", "s", meaning, exported=STAGE_SECONDS, dashboard=WHERE_TIME_GOES)


STAGES = (  # in the order of an update
    _stage("collect", "Waiting for the episodes of the batch."),
    _stage("shape", "Waiting for the rewards of the batch."),
    _stage("learn", "The update of the learners, and before it engines that go to sleep or finish their start."),
    _stage("samples", "Writing games of the batch to samples.jsonl."),
    _stage("sync", "Weight syncs: the one after the update, and those for workers that joined."),
    _stage("evaluate", "Playing held-out games."),
    _stage("record", "Asking workers and reward service for their metrics, and writing the line before this one."),
    _stage("checkpoint", "Saving the checkpoint of the update before this one."),
)

ROLLOUT = (
    Metric(
        "rollout/outcome",
        "0 to 1",
        "Mean outcome of the policy's seats.",
        HIGHER,
        exported=("parley_reward",),
        dashboard="Reward",
    ),
    Metric("rollout/turns", "turns", "Mean length of a game.", panel="Length of games"),
    Metric(
        "rollout/cut_off",
        "share",
        "Games that were cut off by their turn limit or by the context.",
        LOWER,
        panel="Games cut off",
    ),
    Metric(
        "rollout/staleness",
        "updates",
        "How far the weights that made the oldest token are behind those that it trains.",
        LOWER,
        exported=("parley_staleness",),
        dashboard="Staleness",
        panel="Staleness",
    ),
    Metric(
        "rollout/episodes",
        "episodes",
        "Episodes of the batch.",
        exported=("parley_episodes_total",),
        dashboard="Episodes trained on per second",
    ),
    Metric(
        "rollout/groups_without_spread",
        "share",
        "Groups of which no game went better than another, so that methods that compare them learn nothing.",
        LOWER,
    ),
    Metric(
        "rollout/tokens",
        "tokens",
        "Tokens of the batch that the policy sampled.",
        exported=("parley_tokens_total",),
        dashboard="Tokens trained on per second",
    ),
    Metric(
        "rollout/episodes_per_second",
        "episodes/s",
        "Episodes of the batch by all seconds of the update.",
        HIGHER,
        exported=("parley_episodes_per_second",),
        dashboard="Episodes trained on per second",
    ),
    Metric(
        "rollout/tokens_per_second",
        "tokens/s",
        "Sampled tokens of the batch by all seconds of the update.",
        HIGHER,
        exported=("parley_tokens_per_second",),
        dashboard="Tokens trained on per second",
        panel="Speed",
    ),
)

SECONDS = (
    Metric(
        "seconds/update",
        "s",
        "All seconds since the line before.",
        LOWER,
        exported=STAGE_SECONDS,
        dashboard=WHERE_TIME_GOES,
        panel="Time",
    ),
    *STAGES,
)

FAILURES = (
    Metric(
        "record/logger_failed/<name>",
        "calls",
        "What this logger could not take; metrics.jsonl has it all the same.",
        LOWER,
    ),
    Metric(
        "failures/<reason>",
        "episodes",
        "Episodes that failed for this reason, such as `timeout` or `worker_died`; their tickets are issued again.",
        LOWER,
        exported=("parley_failures_total",),
        dashboard="Failed episodes",
    ),
)

EVALUATION = (
    Metric("evaluation/episodes", "episodes", "Held-out games that were played."),
    Metric(
        "evaluation/win_rate",
        "share",
        "Policy seats whose outcome is 1.",
        HIGHER,
        exported=("parley_win_rate",),
        dashboard="Reward",
    ),
    Metric("evaluation/win_{low,high}", "share", "The ends of the 95 % interval of the win rate (Wilson)."),
    Metric("evaluation/outcome", "0 to 1", "Mean outcome of the policy's seats.", HIGHER, panel="Held-out outcome"),
    Metric("evaluation/outcome_{low,high}", "0 to 1", "The ends of the 95 % interval of the outcome (Student's t)."),
    Metric("evaluation/turns", "turns", "Mean length of a held-out game.", panel="Length of held-out games"),
    Metric("evaluation/discounted_return", "reward", "Mean discounted return of a policy seat.", HIGHER),
    Metric("evaluation/money", "money", "Mean earnings of a policy seat, in games that pay.", HIGHER),
)

LEARNER = (
    Metric(
        "learner/loss",
        "",
        "Policy loss, mean over the steps of the update.",
        exported=("parley_loss",),
        dashboard="Loss",
        panel="Loss",
    ),
    Metric(
        "learner/grad_norm",
        "",
        "Norm of the gradient before clipping, mean over the steps.",
        exported=("parley_gradient_norm",),
        dashboard="Gradient norm",
        panel="Gradient norm",
    ),
    Metric(
        "learner/entropy",
        "nats",
        "Minus the mean log-prob of the sampled tokens: about 0 where the policy always says the same.",
        exported=("parley_entropy",),
        dashboard="Entropy",
        panel="Entropy",
    ),
    Metric("learner/policy_entropy", "nats", "Entropy of the whole distribution, with `learner.loss.entropy`."),
    Metric(
        "learner/logprob_gap_mean",
        "nats",
        "Mean difference of the log-probs of trainer and engine, on tokens of the weights held now.",
        LOWER,
    ),
    Metric(
        "learner/logprob_gap_max",
        "nats",
        "Largest difference of the log-probs of trainer and engine, on tokens of the weights held now.",
        LOWER,
        panel="Log-prob gap",
        logarithmic=True,
    ),
    Metric("learner/logprob_gap_warned", "0 or 1", "Whether the mean gap is above `learner.logprob_gap_warn`.", LOWER),
    Metric(
        "learner/mismatch_kl",
        "nats",
        "Divergence of the engine from the trainer on the same tokens.",
        LOWER,
        exported=("parley_mismatch_kl",),
        dashboard="KL",
    ),
    Metric("learner/stale_share", "share", "Trained tokens that older weights sampled."),
    Metric("learner/importance_mean", "", "Mean importance weight of the tokens that older weights sampled."),
    Metric("learner/masked_share", "share", "Trained tokens that `token_mask` or `sequence_mask` dropped."),
    Metric(
        "learner/reference_kl",
        "nats",
        "Divergence from the policy that the run started from.",
        exported=("parley_reference_kl",),
        dashboard="KL",
        panel="KL to the start",
    ),
    Metric(
        "learner/update_kl",
        "nats",
        "Largest divergence from the start of the update that a step came to.",
        exported=("parley_update_kl",),
        dashboard="KL",
    ),
    Metric("learner/kept_kl", "nats", "Divergence from the start of the update at its end, with `kl_guard`."),
    Metric("learner/step_left", "share", "How much of the last step `kl_guard` kept; 1 is all of it."),
    Metric("learner/guarded_steps", "steps", "Steps that `kl_guard` left out."),
    Metric("learner/clipped_share", "share", "Trained tokens that the clip of the loss gives no gradient."),
    Metric("learner/steps", "steps", "Optimiser steps that moved the weights."),
    Metric(
        "learner/bad_steps", "steps", "Steps of the update whose gradient was not finite; they were skipped.", LOWER
    ),
    Metric("learner/bad_updates", "updates", "Updates so far that had such a step.", LOWER),
    Metric("learner/applied", "0 or 1", "Whether the update moved the weights or trained a critic alone.", HIGHER),
    Metric(
        "learner/nothing_to_learn",
        "0 or 1",
        "Whether all returns of the batch were equal, so that the policy stayed as it was.",
        LOWER,
    ),
    Metric(
        "learner/cut_off_masked", "share", "Games that were cut off and left out of the policy's loss (`mask_cut_off`)."
    ),
    Metric("learner/learning_rate", "", "Step size of the update."),
    Metric("learner/trajectories", "games", "Games of policy seats that were learned from."),
    Metric("learner/replayed_trajectories", "games", "Those of earlier batches, learned from once more."),
    Metric("learner/alone", "games", "Those that had no other game of their group to be compared with.", LOWER),
    Metric("learner/states", "", "States that turns are compared in, those of each task apart; anchored methods."),
    Metric(
        "learner/alone_in_state",
        "share",
        "Turns that no other turn of the task was in the state of; anchored methods.",
        LOWER,
    ),
    Metric(
        "learner/hindsight_by_length",
        "",
        "Correlation of hcapo's ratios with the number of tokens that were said; above 0 it pays for length.",
    ),
    Metric("learner/tokens", "tokens", "Tokens that the batch holds, observations included."),
    Metric("learner/trained_tokens", "tokens", "Tokens among them that have a gradient."),
    Metric("learner/micro_batches", "", "Micro-batches of the first rank."),
    Metric("learner/shared_tokens", "", "Share of the games' tokens that were computed with another game's."),
    Metric("learner/return_mean", "reward", "Mean return of a game from its first turn on.", HIGHER),
    Metric("learner/advantage_mean", "", "Mean advantage of a trained token."),
    Metric("learner/advantage_std", "", "Standard deviation of the advantages."),
    Metric("learner/value_mean", "reward", "Mean value that the critic read."),
    Metric(
        "learner/value_explained",
        "share",
        "Share of the variance of the critic's targets that it predicted; below 0 it is worse than their mean.",
        HIGHER,
        panel="Critic",
    ),
    Metric("learner/action_value_explained", "share", "The same of archer's action values.", HIGHER),
    Metric("learner/critic_loss", "", "Error of the critic before its steps.", LOWER),
    Metric("learner/critic_loss_after", "", "Error of the critic at the last of its steps.", LOWER),
    Metric("learner/critic_loss_{q,v}", "", "Errors of archer's action values and state values.", LOWER),
    Metric("learner/replay_turns", "turns", "Turns of past updates that archer's critics learn from."),
    Metric("learner/router_load", "", "Evenness of the experts' load; 1 is even.", LOWER),
    Metric(
        "learner/tokens_per_second", "tokens/s", "Tokens of the batch by the seconds of all passes and steps.", HIGHER
    ),
    Metric("learner/fetch_seconds", "s", "Taking the episodes out of the object store.", LOWER),
    Metric("learner/prepare_seconds", "s", "Passes without gradient, and the credit of the tokens.", LOWER),
    Metric("learner/forward_backward_seconds", "s", "Passes with gradient.", LOWER),
    Metric("learner/step_seconds", "s", "Optimiser steps.", LOWER),
)

SYNC = (
    Metric(
        "sync/seconds",
        "s",
        "Seconds of the sync after the update: pause, transfer, probe, resume.",
        LOWER,
        exported=("parley_sync_seconds",),
        dashboard="Weight sync",
    ),
    Metric("sync/tensors", "tensors", "Tensors whose digests were compared, in every engine."),
    Metric(
        "sync/parity_gap",
        "nats",
        "Difference of the log-probs of engines and trainer in the last probe: in float32 the largest, as a share of a "
        "log-prob below -1; in half precision the mean, as a share of their spread.",
        LOWER,
        exported=("parley_parity_gap",),
        dashboard="Parity gap",
        panel="Sync probe",
        logarithmic=True,
    ),
    Metric("sync/version", "updates", "Version of the weights that the engines hold now."),
)

FLEET = (
    Metric("fleet/workers", "workers", "Workers that answered.", HIGHER),
    Metric("fleet/suspect", "workers", "Workers that are late with an answer and get no new tickets.", LOWER),
    Metric("fleet/restarts", "workers", "Workers that were lost and replaced.", LOWER),
    Metric("fleet/resumed", "episodes", "Episodes of lost workers that another was given to go on with."),
    Metric(
        "fleet/snapshots_refused",
        "episodes",
        "Those of them that began anew, for their snapshot was of no use (`tokens/dropped/snapshot_refused`).",
        LOWER,
    ),
    Metric("learner/restarts", "", "Times that the learners were lost and started anew.", LOWER),
    Metric("fleet/waiting", "episodes", "Tickets that no worker has yet."),
    Metric("fleet/queued", "episodes", "Episodes that wait in a worker for a free place."),
    Metric("fleet/live", "episodes", "Episodes that are being played."),
    Metric("fleet/pending", "workers", "Workers that Ray has no room for yet (`rollout.workers`)."),
    Metric("fleet/leaving", "workers", "Workers that get no new tickets because Ray drains their node."),
    Metric("fleet/left", "workers", "Workers that left with their node; others take their place where there is room."),
    Metric("fleet/node_questions_failed", "questions", "Questions about the nodes that Ray answered with an error."),
    Metric("fleet/failed", "episodes", "Episodes that failed.", LOWER),
    Metric("fleet/generated_tokens", "tokens", "Tokens that the engines made."),
    Metric("fleet/tokens_per_busy_second", "tokens/s", "Tokens by the seconds in which an engine was at work.", HIGHER),
    Metric("fleet/prefix_cache_hit_rate", "share", "Prompt tokens that were in the prefix cache.", HIGHER),
)

LEDGER = (
    Metric("ledger/issued", "tickets", "Tickets given out, each time it happened."),
    Metric("ledger/consumed", "episodes", "Episodes that were trained on."),
    Metric(
        "ledger/playing",
        "tickets",
        "Tickets whose episodes are being played.",
        exported=("parley_ledger_in_flight",),
        dashboard="Tickets in flight",
    ),
    Metric(
        "ledger/waiting",
        "episodes",
        "Finished episodes that wait for the learner.",
        exported=("parley_ledger_in_flight", "parley_finished_waiting"),
        dashboard="Tickets in flight",
    ),
    Metric("ledger/reissued", "tickets", "Tickets that were given out again because their episode failed.", LOWER),
    Metric(
        "ledger/redrawn",
        "episodes",
        "Episodes of groups without spread, in whose place another task was played (`group_redraws`).",
        LOWER,
    ),
    Metric(
        "ledger/late", "episodes", "Episodes that came after their worker had been given up; they are not used.", LOWER
    ),
    Metric("ledger/dropped", "tickets", "Tickets that failed `rollout.max_attempts` times.", LOWER),
    Metric("ledger/dropped/<reason>", "tickets", "Those of one last reason.", LOWER),
)

TOKENS = (
    Metric("tokens/sampled", "tokens", "All that were sampled, by the workers' own count."),
    Metric("tokens/trained", "tokens", "Tokens of episodes that were trained on."),
    Metric("tokens/evaluated", "tokens", "Tokens of held-out games."),
    Metric("tokens/waiting", "tokens", "Tokens of finished episodes that wait for the learner."),
    Metric("tokens/playing", "tokens", "Tokens of episodes that are being played, as workers last said."),
    Metric("tokens/dropped", "tokens", "Tokens that were of no use.", LOWER),
    Metric(
        "tokens/dropped/<reason>",
        "tokens",
        "Those of one reason: that of a failure, `no_spread` (drawn again), `late`, or `restart` (in play then).",
        LOWER,
    ),
    Metric(
        "tokens/trained_share",
        "share",
        "Trained tokens by trained and dropped ones.",
        HIGHER,
        panel="Tokens of use",
    ),
)

RECORD = (
    Metric("record/games", "episodes", "Games that were written."),
    Metric("record/mib", "MiB", "Disk that all kept games take.", LOWER),
    Metric("record/forgotten", "episodes", "Old games that went because `record.most_gib` was reached.", LOWER),
    Metric("record/seconds", "s", "Processor time of the thread that writes; nobody waits for it.", LOWER),
    Metric("record/spans_sent", "spans", "Those that the collector took (`telemetry.endpoint`)."),
    Metric("record/spans_dropped", "spans", "Those that it did not take, or that there was no room for.", LOWER),
)

TRAINING = (*ROLLOUT, *EVALUATION, *LEARNER, *SECONDS, *SYNC, *FAILURES, *LEDGER, *TOKENS, *RECORD, *FLEET)
