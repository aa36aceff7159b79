"""Runs inside lldb: stops the program in stop_here() and writes what each command says. See debugger_test.py."""
import json
import os

import lldb


def __lldb_init_module(debugger, internal_dict):
    debugger.SetAsync(False)
    target = debugger.GetSelectedTarget()

    def say(line):
        """What a command prints. It works on the frame that is selected now."""
        frame = target.GetProcess().GetSelectedThread().GetSelectedFrame()
        context = lldb.SBExecutionContext(frame) if frame.IsValid() else lldb.SBExecutionContext(target)
        result = lldb.SBCommandReturnObject()
        debugger.GetCommandInterpreter().HandleCommand(line, context, result, False)
        return (result.GetOutput() or "") + (result.GetError() or "")

    for line in ("settings set target.disable-aslr false", f'command script import "{os.environ["CAPSTAN_SCRIPT"]}"',
                 "breakpoint set --name stop_here", "process launch"):
        print(say(line))
    if target.GetProcess().GetSelectedThread().GetStopReason() != lldb.eStopReasonBreakpoint:
        return
    answers = {line: say(line) for line in json.loads(os.environ["CAPSTAN_COMMANDS"])}
    with open(os.environ["CAPSTAN_ANSWERS"], "w") as file:
        json.dump(answers, file)
    target.GetProcess().Kill()
