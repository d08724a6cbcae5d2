"""Many small trainings, honestly compared: the experiments behind the defaults.

    trainee   one policy that plays and learns in this process, of the product's own parts
    trial     one run of one method from one warm start with one seed -> a record
    store     records on disk: a run that is there is not run again
    tables    means with intervals, of what is in the store

No Ray, no DeepSpeed: at 0.2 million weights they would be most of what is measured. The
games, players, sampler, shapers, credit methods, critic and loss are those of a real run.
"""
