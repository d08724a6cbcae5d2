"""Worlds in Java and C, in processes of their own: each serves one episode at a time, and many one after the other.

    game --lease--> pool --starts--> guard --forks--> world          a process each for guard and world
         --call---------------------- a socket ------> world
         <-answer-------------------- a socket ------- world

    world      an object of a plain class that is made once; its methods are called with JSON and answer with JSON
    guard      takes what the world prints, watches its memory, and ends it with everything that it has started as soon
               as the pool or the whole process of the pool is gone, however that ended
    pool       so many processes of a kind; whoever asks for more waits

A world that crashes, hangs, grows, or answers with what is no JSON is one failure with a name of its own
(`failures`): the episode that was played there ends with it, and the next one has a new process.

Programs of others that are talked to over their standard input and output (MCP servers) have a guard too: `command`.
"""
