"""What each number on a page means, in a sentence or two; the texts behind the question marks."""

from collections.abc import Mapping

DEFINITIONS: Mapping[str, str] = {
    "step time": (
        "Median wall time of a step over the steps that count: without warm-up, skipped and "
        "profiled steps. A step takes as long as its slowest rank."
    ),
    "throughput": (
        "What all ranks together consume in a second: the median, over the steps that count, of "
        "a step's tokens (or samples) divided by its wall time."
    ),
    "MFU": (
        "Model FLOPs utilisation: arithmetic of one forward and backward pass, without "
        "recomputation, over the dense peak of all devices in the precision used."
    ),
    "peak memory": (
        "Most that the device allocator of the fullest rank held in an unprofiled step; without "
        "an allocator, the largest sum of the device ledger."
    ),
    "closed form": (
        "What parameters, gradients, optimizer state and buffers must take on the fullest rank "
        "by ZeRO's arithmetic for this stage, precision, world size and offload."
    ),
    "exposed communication": (
        "Part of the step time in which the computing thread stood still for a collective. What "
        "ran beside computation is hidden and costs nothing."
    ),
    "skipped steps": (
        "Steps that changed no parameter, because a gradient overflowed or none was there; of "
        "all recorded steps."
    ),
    "16-bit": (
        "The precision that forward and backward were asked to compute in, and the share of what "
        "ranks exchange that is 16-bit. Norms, losses and the optimizer's update stay in 32 bit."
    ),
    "useful time": "Time of the steps that changed the parameters, of the time of all steps.",
    "last step": "The highest step that any rank has ended; what is left is at the usual pace.",
    "last loss": "Mean over the ranks in the last step that states a loss; nan if any rank's was.",
    "loss scale": "The factor on the loss that keeps small fp16 gradients from vanishing.",
    "overflow": (
        "A gradient, weight, output or loss that is infinite or no number. The step is skipped on "
        "every rank; the first offender of a rank is where it began there."
    ),
    "ledger": (
        "Bytes by what they are held for, counted by the engine; allocated and reserved are the "
        "device allocator's own figures, where there is one."
    ),
    "bus bandwidth": (
        "busbw by nccl-tests: what the slowest link must carry for the operation, so that it can "
        "be held against the hardware whatever the number of ranks. Payload is what was asked for."
    ),
    "waiting": (
        "Time in a collective until its last rank came is waiting for peers; what is left is the "
        "transfer. The rank that waits least is the one that the others wait for."
    ),
    "breakdown": (
        "Every moment of the window is computation, exposed communication, exposed copies or idle; "
        "the parts sum to its wall time. A profiler perturbs what it sees: these steps count in "
        "no other statistic."
    ),
    "own time of an operator": (
        "Its time without what it called. A rank whose operators take longer than those of the "
        "others computes slower, or more; one that waits longer is waited for by nobody."
    ),
    "status": (
        "What became of the run, by its manifest and its ranks' heartbeats: a run that is silent "
        "for longer than three of its steps, and half a minute, is stalled."
    ),
    "health": (
        "The gravest that manifest, headers and heartbeats tell; `probe doctor` reads tables too."
    ),
    "stage": "ZeRO stage: what is partitioned over ranks. 0 nothing, 1 optimizer state, "
    "2 gradients too, 3 parameters too.",
    "offload": "What rests off the device between uses, and where.",
    "world": "Ranks that train together.",
    "phases": (
        "The parts that every step is divided into. They sum to its wall time; what no phase "
        "claims is called other."
    ),
}
