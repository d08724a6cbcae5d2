"""Metrics of the reward service, and of the shapers that keep a state."""

from __future__ import annotations

from cluster.record.metric_list.metric import HIGHER, LOWER, Metric

SERVICE = (
    Metric("reward/received", "episodes", "Episodes that were prepared as they arrived."),
    Metric("reward/failed_prepares", "episodes", "Episodes whose preparation failed; it is tried again.", LOWER),
    Metric("reward/shaped", "episodes", "Episodes that were given rewards."),
    Metric("reward/asked_again", "batches", "Batches that were asked for twice; the answer is the same."),
    Metric("reward/refits", "", "Refits and trainings of the shaper that were published."),
    Metric("reward/failed_refits", "", "Those that failed; the state in use stays.", LOWER),
    Metric("reward/refitting", "0 or 1", "Whether one is under way."),
    Metric("reward/restarts", "", "Times that the service was lost and replaced.", LOWER),
    Metric("reward/prepare_seconds", "s", "Preparing episodes as they arrive; nobody waits for it.", LOWER),
    Metric("reward/shape_seconds", "s", "Making rewards of complete batches.", LOWER),
)

INTENTIONS = (
    Metric("reward/intentions/version", "", "Version of the space of intentions; 0 is before the first."),
    Metric("reward/intentions/k", "intentions", "Intentions of the space."),
    Metric("reward/intentions/settled", "0 or 1", "Whether the criterion for their number was met."),
    Metric("reward/intentions/utterances", "utterances", "Distinct utterances that are known."),
    Metric("reward/intentions/episodes", "episodes", "Episodes of the window."),
    Metric("reward/intentions/turns", "turns", "Turns of the window."),
    Metric("reward/intentions/variance_before", "", "Variance of the returns of turns, before they are shared."),
    Metric("reward/intentions/variance_after", "", "Variance of what turns are worth, after it.", LOWER),
    Metric("reward/intentions/groups", "groups", "Groups of turns that share, in the finest table."),
    Metric("reward/intentions/group_size", "turns", "Turns that share with a turn, mean.", HIGHER),
    Metric("reward/intentions/singletons", "share", "Turns that share with no other turn.", LOWER),
    Metric("reward/intentions/singletons_turn_<number>", "share", "The same of this turn of each seat.", LOWER),
    Metric(
        "reward/intentions/drift", "share", "Utterances since the last refit that lie far from all intentions.", LOWER
    ),
    Metric("reward/intentions/agreement", "", "Adjusted Rand index of the space and the one before it; 1 is equal."),
    Metric("reward/intentions/moved", "share", "Utterances that the last refit gave another intention."),
    Metric("reward/intentions/refused/<reason>", "episodes", "Episodes that were refused for this reason.", LOWER),
    Metric("reward/intentions/embedding/hit_rate", "share", "Texts whose embedding was in the cache.", HIGHER),
    Metric("reward/intentions/embedding/misses", "texts", "Texts that were embedded."),
    Metric("reward/intentions/embedding/cached", "texts", "Texts in the cache."),
    Metric(
        "reward/intentions/embedding/{requests,answers,failures,retries}",
        "requests",
        "Requests to the endpoint for embeddings, those that were answered, those that failed, and repeated tries.",
    ),
)

MODELS = (
    Metric("reward/{spa,reward_model}/version", "", "Version of the reward model; 0 is before the first."),
    Metric("reward/{spa,reward_model}/age", "updates", "Updates since the episodes that it was trained on."),
    Metric("reward/{spa,reward_model}/episodes", "episodes", "Episodes that the next one is trained on."),
    Metric("reward/{spa,reward_model}/texts", "texts", "Distinct texts of these."),
    Metric("reward/{spa,reward_model}/examples", "", "Examples that it was trained on."),
    Metric("reward/{spa,reward_model}/held_out", "", "Examples that it was measured with."),
    Metric("reward/{spa,reward_model}/held_out_mse", "", "Mean squared error on these.", LOWER),
    Metric("reward/{spa,reward_model}/held_out_mae", "", "Mean absolute error on these.", LOWER),
    Metric("reward/{spa,reward_model}/held_out_within_tenth", "share", "Errors of at most .1.", HIGHER),
    Metric("reward/{spa,reward_model}/held_out_correlation", "", "Correlation with the target.", HIGHER),
    Metric(
        "reward/{spa,reward_model}/held_out_explained",
        "share",
        "Share of the target's variance that is predicted; below 0 it is worse than the mean.",
        HIGHER,
    ),
    Metric("reward/{spa,reward_model}/training_seconds", "s", "The last training; nobody waits for it.", LOWER),
    Metric(
        "reward/{spa,reward_model}/refused/<reason>", "episodes", "Episodes that were refused for this reason.", LOWER
    ),
)

REGRESSED = (
    Metric("reward/regressed/version", "", "Version of the axes of meaning; 0 is before the first."),
    Metric(
        "reward/regressed/value_explained", "share", "Share of the returns' variance that values predicted.", HIGHER
    ),
    Metric("reward/regressed/advantage_explained", "share", "Share of what is left that utterances predicted.", HIGHER),
    Metric("reward/regressed/{value,advantage}_penalty", "", "The penalties of the two regressions."),
    Metric("reward/regressed/refused/<reason>", "episodes", "Episodes that were refused for this reason.", LOWER),
)

ONI = (
    Metric("reward/oni/version", "", "Version of the annotator's model; 0 is before the first."),
    Metric("reward/oni/helpful", "", "Mean intrinsic reward of the last batch, before its weight."),
    Metric("reward/oni/answers", "", "Answers that are kept."),
    Metric("reward/oni/seen", "questions", "Questions that were let into the queue."),
    Metric("reward/oni/labelled", "questions", "Questions that were answered."),
    Metric("reward/oni/pending", "questions", "Questions that the annotator has now."),
    Metric("reward/oni/queued", "questions", "Questions that wait for the annotator.", LOWER),
    Metric("reward/oni/dropped", "questions", "Questions that were dropped because too many waited.", LOWER),
    Metric("reward/oni/given_up", "questions", "Questions that failed too often.", LOWER),
    Metric("reward/oni/failed/<reason>", "", "Questions that failed for this reason.", LOWER),
    Metric("reward/oni/loss", "", "Training loss of the model.", LOWER),
    Metric("reward/oni/gradient_steps", "steps", "Steps of its training so far."),
    Metric("reward/oni/score_{mean,deviation}", "", "Running mean and deviation of the scores, with `ranking`."),
    Metric(
        "reward/oni/endpoint/{requests,answers,failures,retries}",
        "requests",
        "Requests to the annotator's endpoint, those that were answered, those that failed, and repeated tries.",
    ),
    Metric("reward/oni/endpoint/{prompt,answer}_tokens", "tokens", "Tokens that were sent and received."),
    Metric("reward/oni/endpoint/cost", "", "What they cost, in the currency of the settings' prices.", LOWER),
)

REWARDS = (*SERVICE, *INTENTIONS, *MODELS, *REGRESSED, *ONI)
