"""From two commands to the call that is wrong, and the proof of it.

``runs`` records both commands as a stage asks, ``traces`` finds the step at which they part,
``stages`` goes from there to calls and tensors, ``proof`` runs the suspect again.
"""
