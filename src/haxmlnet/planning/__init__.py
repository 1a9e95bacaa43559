"""Memory and time of a training before it starts.

Read in this order: sizes (of the data), model_shape, training_memory (and batch_memory), times (and network_times),
advice, forecast.
"""
