"""How does a model learn a task, and how well did it?"""
