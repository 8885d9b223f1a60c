"""On the relay's path in a test: every frame that arrives there, as the relay can read it after TLS, goes into a file."""

import os

if os.environ.get("PDML_TEST_TAP"):
    from nvflare.fuel.f3.sfm.conn_manager import ConnManager

    honest = ConnManager.process_frame_task

    def tapped(self, sfm_conn, frame):
        with open(os.environ["PDML_TEST_TAP"], "ab") as file:
            file.write(bytes(frame))
        return honest(self, sfm_conn, frame)

    ConnManager.process_frame_task = tapped
