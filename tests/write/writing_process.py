"""A process that writes a session and says on stdout which entries were acknowledged; made to be killed."""

from __future__ import annotations

import sys

from ccanalytics.write.writer import TranscriptWriter


def main(config: str, window_ms: float) -> None:
    writer = TranscriptWriter(config, cwd="/home/dev/app", session_id="s1", window_ms=window_ms, sync="system")
    print("ready", flush=True)
    number = 0
    while True:
        receipts = [writer.user(f"prompt {number} " + "x" * (number * 37 % 3000)) for _ in range(5)]
        agent = writer.agent(agent_id="a1")
        receipts.append(agent.user(f"errand {number}"))
        for receipt in receipts:
            print(receipt.wait().uuid, flush=True)
        number += 1


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]))
