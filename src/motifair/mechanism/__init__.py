"""The paper's equations as pure functions of tensors, independent of the other packages.

Shapes: A agents, D parameters; `...` are further axes, such as several federations.
"""
