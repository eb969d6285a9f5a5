"""One line for each command of this package: `bitlane --help` shows them without importing the commands."""

SUMMARIES = {
    "encode": "store a table once with few bits a value, for many trainings",
    "train": "train one model",
    "predict": "predict the target of new rows by a trained model",
    "evaluate": "measure a trained model on labelled rows",
    "compare": "train at several precisions and compare",
    "levels": "compare uniform levels with levels of least variance",
    "train-ddp": "train a network on several processes, with compressed gradients",
    "advise": "recommend a gradient compressor for a model and a link",
    "sparse": "train and use sparse models: LR, FM, FFM and networks over 64-bit keys",
    "plan": "predict time, memory and area of a training on a board, or the time of a solver",
    "plot": "draw a run folder's plots again",
    "devices": "list the devices, and the boards with their overlays",
    "datasets": "list the data sets",
    "completion": "print a script that completes commands and options in a shell",
    "selftest": "check every block of a device and print a report",
}
