"""The pods of a gang, placed together or not at all.

``gang_places`` plans which domains to try, ``spreading`` how many members go into each, ``gangs``
tries the plans. Comes after ``refusal``.
"""
