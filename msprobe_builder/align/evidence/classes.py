"""What a module of a class that frameworks define does; two that do different things are no pair.

Only names that say one thing wherever they stand: a class of a model may be called anything else.
"""

from __future__ import annotations

_CLASSES: tuple[tuple[str, ...], ...] = (
    (
        *("Linear", "LazyLinear", "Bilinear", "NonDynamicallyQuantizableLinear", "Dense"),
        *("Conv1D", "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d"),
        *("ConvTranspose3d", "ColumnParallelLinear", "RowParallelLinear", "QKVParallelLinear"),
    ),
    (
        *("LayerNorm", "RMSNorm", "GroupNorm", "LocalResponseNorm", "SyncBatchNorm"),
        *("BatchNorm1d", "BatchNorm2d", "BatchNorm3d"),
        *("InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d"),
    ),
    (
        *("ReLU", "ReLU6", "LeakyReLU", "PReLU", "RReLU", "ELU", "SELU", "CELU", "GELU", "GLU"),
        *("SiLU", "Mish", "Tanh", "Sigmoid", "Hardtanh", "Hardswish", "Hardsigmoid"),
        *("Softplus", "Softsign", "Threshold"),
    ),
    ("Softmax", "LogSoftmax", "Softmax2d", "Softmin"),
    ("Identity", "Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "AlphaDropout", "DropPath"),
    ("Embedding", "EmbeddingBag", "VocabParallelEmbedding"),
    (
        *("MaxPool1d", "MaxPool2d", "MaxPool3d", "AvgPool1d", "AvgPool2d", "AvgPool3d"),
        *("AdaptiveAvgPool1d", "AdaptiveAvgPool2d", "AdaptiveMaxPool1d", "AdaptiveMaxPool2d"),
    ),
    ("CrossEntropyLoss", "NLLLoss", "MSELoss", "L1Loss", "SmoothL1Loss", "BCEWithLogitsLoss"),
    ("Flatten", "Unflatten"),
    ("Upsample", "PixelShuffle", "UpsamplingNearest2d", "UpsamplingBilinear2d"),
    ("LSTM", "GRU", "RNN", "LSTMCell", "GRUCell", "RNNCell"),
    ("MultiheadAttention",),
)
KIND_OF_CLASS = {name: kind for kind, names in enumerate(_CLASSES) for name in names}
