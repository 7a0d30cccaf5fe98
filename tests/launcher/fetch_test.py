"""data/fetch.sh against a local hub that can cut, shorten, corrupt and refuse."""

import hashlib
import http.server
import json
import re
import threading
import unittest

from support import ScratchTree

WEIGHTS = bytes((i * 7919 + i // 251) % 256 for i in range(300_000))
PATH = "/org/repo/resolve/abc123/weights.bin"


class Hub(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def do_GET(self):
        hub = self.server
        hub.requests.append((self.path, self.headers.get("Range")))
        if hub.statuses:
            self.send_error(hub.statuses.pop(0))
            return
        if self.path not in hub.files:
            self.send_error(404)
            return
        body, start = hub.files[self.path], 0
        found = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        if found and hub.has_range:
            start = int(found[1])
            if start >= len(body):
                self.send_error(416)
                return
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-{len(body) - 1}/{len(body)}")
        else:
            self.send_response(200)
        self.send_header("Content-Length", str(len(body) - start))
        self.end_headers()
        end = min(len(body), start + hub.cuts.pop(0)) if hub.cuts else len(body)
        self.wfile.write(body[start:end])
        self.close_connection = True


class FetchTest(ScratchTree):
    def setUp(self):
        super().setUp()
        self.hub = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hub)
        self.hub.files = {PATH: WEIGHTS}
        self.hub.requests, self.hub.cuts, self.hub.statuses, self.hub.has_range = [], [], [], True
        thread = threading.Thread(target=self.hub.serve_forever, args=(0.05,))
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(self.hub.server_close)
        self.addCleanup(self.hub.shutdown)
        self.copy("data/fetch.sh")
        self.describe()

    def describe(self, **fields):
        known = {"bytes": len(WEIGHTS), "sha256": hashlib.sha256(WEIGHTS).hexdigest(), **fields}
        weights = {"name": "weights.bin", **{k: v for k, v in known.items() if v is not None}}
        models = {
            "tiny-model": {
                "title": "t",
                "licence": "none",
                "source": {"hub": "org/repo", "revision": "abc123"},
                "files": [weights],
            },
            "packed-model": {
                "title": "t",
                "licence": "none",
                "source": {"package": "tiny-weights==1.0"},
                "files": [weights],
            },
        }
        self.write(json.dumps({"models": models}), "data", "models.json")

    def fetch(self, name="tiny-model", tries=1, **environment):
        hub = f"http://127.0.0.1:{self.hub.server_address[1]}"
        return self.run_script(
            "data/fetch.sh", name, KVCOST_HUB=hub, KVCOST_FETCH_TRIES=str(tries), no_proxy="*", **environment
        )

    def assert_fetched(self, result, name="tiny-model"):
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stdout, "")
        self.assertEqual(self.read("models", name, "weights.bin"), WEIGHTS)
        self.assertFalse(self.exists("models", name, "weights.bin.part"))

    def assert_refused(self, result, *words, part=None):
        self.assertEqual(result.returncode, 1, result.stderr)
        last = result.stderr.strip().splitlines()[-1]
        for word in words:
            self.assertIn(word, last)
        self.assertFalse(self.exists("models", "tiny-model", "weights.bin"))
        if part is None:
            self.assertFalse(self.exists("models", "tiny-model", "weights.bin.part"))
        else:
            self.assertEqual(self.read("models", "tiny-model", "weights.bin.part"), part)

    def test_whole_file(self):
        self.assert_fetched(self.fetch())
        self.assertEqual(self.hub.requests, [(PATH, None)])

    def test_what_is_there_and_right_is_kept(self):
        self.write(WEIGHTS, "models", "tiny-model", "weights.bin")
        self.assert_fetched(self.fetch())
        self.assert_fetched(self.fetch())
        self.assertEqual(self.hub.requests, [])

    def test_what_is_there_and_wrong_is_fetched_anew(self):
        for wrong in (WEIGHTS[:1000], WEIGHTS[::-1]):
            self.write(wrong, "models", "tiny-model", "weights.bin")
            result = self.fetch()
            self.assertIn("fetching it anew", result.stderr)
            self.assert_fetched(result)

    def test_a_change_after_the_check_is_noticed(self):
        self.assert_fetched(self.fetch())
        self.write(WEIGHTS + b"x", "models", "tiny-model", "weights.bin")
        self.assert_fetched(self.fetch())
        self.assertEqual(len(self.hub.requests), 2)

    def test_a_cut_transfer_is_resumed_by_the_next_call(self):
        self.hub.cuts = [100_000]
        self.assert_refused(self.fetch(), "100000 of 300000 bytes", "resume", part=WEIGHTS[:100_000])
        self.assert_fetched(self.fetch())
        self.assertEqual(self.hub.requests, [(PATH, None), (PATH, "bytes=100000-")])

    def test_a_cut_transfer_is_resumed_within_a_call(self):
        self.hub.cuts = [100_000, 50_000]
        self.assert_fetched(self.fetch(tries=3))
        self.assertEqual([r for _, r in self.hub.requests], [None, "bytes=100000-", "bytes=150000-"])

    def test_a_server_that_is_busy_is_asked_again(self):
        self.hub.statuses = [503]
        self.assert_fetched(self.fetch(tries=2))

    def test_a_part_that_is_whole_is_only_renamed(self):
        self.write(WEIGHTS, "models", "tiny-model", "weights.bin.part")
        self.assert_fetched(self.fetch())
        self.assertEqual(self.hub.requests, [])

    def test_a_server_without_ranges_starts_over(self):
        self.hub.has_range = False
        self.write(WEIGHTS[:5000], "models", "tiny-model", "weights.bin.part")
        self.assert_fetched(self.fetch(tries=2))

    def test_a_part_longer_than_the_file_starts_over(self):
        self.write(WEIGHTS + b"more", "models", "tiny-model", "weights.bin.part")
        self.assert_fetched(self.fetch())
        self.assertEqual(self.hub.requests, [(PATH, None)])

    def test_a_part_of_another_file_is_deleted_and_the_next_call_is_right(self):
        self.write(b"?" * 5000, "models", "tiny-model", "weights.bin.part")
        self.assert_refused(self.fetch(), "found sha256", "expected")
        self.assert_fetched(self.fetch())

    def test_a_shorter_file(self):
        self.hub.files[PATH] = WEIGHTS[:-1]
        self.assert_refused(self.fetch(), "found 299999 bytes, expected 300000")

    def test_a_longer_file(self):
        self.hub.files[PATH] = WEIGHTS + b"x"
        self.assert_refused(self.fetch(), "found 300001 bytes, expected 300000")

    def test_a_wrong_hash(self):
        wrong = WEIGHTS[:-1] + b"x"
        self.hub.files[PATH] = wrong
        self.assert_refused(
            self.fetch(), hashlib.sha256(wrong).hexdigest(), hashlib.sha256(WEIGHTS).hexdigest()
        )

    def test_404(self):
        self.hub.files = {}
        self.assert_refused(self.fetch(tries=3), PATH, "answered 404")
        self.assertEqual(len(self.hub.requests), 1)

    def test_no_server(self):
        result = self.run_script(
            "data/fetch.sh", "tiny-model", KVCOST_HUB="http://127.0.0.1:1", KVCOST_FETCH_TRIES="1", no_proxy="*"
        )
        self.assert_refused(result, "127.0.0.1:1", "curl")

    def test_nothing_known_of_the_file(self):
        self.describe(bytes=None, sha256=None)
        self.write(b"old", "models", "tiny-model", "weights.bin.part")
        self.assert_fetched(self.fetch())
        self.assertEqual(self.hub.requests, [(PATH, None)])

    def test_an_empty_file(self):
        self.describe(bytes=None, sha256=None)
        self.hub.files[PATH] = b""
        self.assert_refused(self.fetch(), "found 0 bytes")

    def test_unknown_name(self):
        result = self.fetch("tiny-modle")
        self.assertEqual(result.returncode, 2)
        self.assertIn("nearest: tiny-model", result.stderr)
        self.assertEqual(len(result.stderr.splitlines()), 1)
        self.assertFalse(self.exists("models"))

    def test_another_folder(self):
        self.assertEqual(self.fetch(KVCOST_MODELS=self.path("elsewhere")).returncode, 0)
        self.assertEqual(self.read("elsewhere", "tiny-model", "weights.bin"), WEIGHTS)

    def test_from_a_package(self):
        pip = self.make_wheel("wheels", "tiny_weights", "1.0", {"tiny_weights/weights.bin": WEIGHTS})
        self.assert_fetched(self.fetch("packed-model", **pip), "packed-model")
        self.assertEqual(self.hub.requests, [])

    def test_from_a_package_without_the_file(self):
        pip = self.make_wheel("wheels", "tiny_weights", "1.0", {"tiny_weights/other.bin": WEIGHTS})
        result = self.fetch("packed-model", **pip)
        self.assertEqual(result.returncode, 1)
        self.assertIn("found 0 files named weights.bin, expected 1", result.stderr)
        self.assertFalse(self.exists("models", "packed-model", "weights.bin"))


if __name__ == "__main__":
    unittest.main()
