"""Installed as DATADIR/gdb/auto-load/LIBDIR/libcapstan.so.X.Y.Z-gdb.py: gdb runs it when it sees that library."""
import os
import sys

import gdb

here = sys._getframe().f_code.co_filename
sys.path.insert(0, os.path.join(here.split("/gdb/auto-load/")[0], "capstan", "debuggers"))
import capstan_printers

capstan_printers.register(gdb.current_objfile())
