"""What Kubernetes objects mean: from ``objects`` to values of the model, and grants back to text.

``node`` reads nodes, ``pod`` reads pods with the help of the modules named after the parts of a pod
(``containers``, ``gpu_models``, ``gpu_locality``, ``neighbours``, ``selectors``, ``volumes``),
``gangs`` and ``gang_owners`` find out which pods belong together, ``grant`` reads and writes what a placed
pod may use. Whatever cannot be understood is an ``ObjectError`` that names the field; its owner is told, and
no other object is harmed.
"""
