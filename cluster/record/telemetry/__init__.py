"""Spans of a run for an OpenTelemetry collector, where `telemetry.endpoint` names one; without it nothing is loaded.

    training loop --stages--+
                            +--spans--> a bounded queue --> a thread --> the collector
    recorder -----games-----+                |
                                             +-- no room, or it cannot be sent: dropped and counted

They are made of what the driver knows: the loop's stages, and the times in the turns of games. Workers export nothing.
"""
