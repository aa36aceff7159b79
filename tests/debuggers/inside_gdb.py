"""Runs inside gdb: stops the program in stop_here() and writes what each command says. See debugger_test.py."""
import json
import os

import gdb

for line in ("set pagination off", "set confirm off", "set width 0", "source " + os.environ["CAPSTAN_SCRIPT"],
             "break stop_here", "run"):
    gdb.execute(line)
answers = {}
for line in json.loads(os.environ["CAPSTAN_COMMANDS"]):
    try:
        answers[line] = gdb.execute(line, to_string=True)
    except gdb.error as fault:
        answers[line] = "error: %s\n" % fault
with open(os.environ["CAPSTAN_ANSWERS"], "w") as file:
    json.dump(answers, file)
