"""Shows Capstan's tensors in gdb: `source capstan_gdb.py`, then `p h`, `info locals`, `tensor h --full`.

Memory is read and nothing in the program is called, so core files and crashed programs do as well. `set print elements`
says from how many values on a tensor is summarised. See docs/debuggers.md.
"""
import os
import sys

import gdb

here = sys._getframe().f_code.co_filename  # not __file__, which stays that of a script that sources this one
sys.path.insert(0, os.path.dirname(os.path.realpath(here)))
import capstan_printers  # a module: all scripts that gdb sources share one namespace

capstan_printers.register(gdb.current_objfile())
