#!/usr/bin/env python3
"""Tests scripts/get-data with a server that knows ranges, or none, breaks off, or sends other things."""
import collections
import hashlib
import http.server
import importlib.machinery
import importlib.util
import io
import json
import os
import pathlib
import re
import subprocess
import sys
import tarfile
import tempfile
import threading
import unittest
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
SCRIPT = ROOT / "scripts" / "get-data"
CONTENT = bytes((i * i * 31 + i // 7) % 256 for i in range(5000))
OTHER = bytes(reversed(CONTENT))
assert OTHER != CONTENT
PAGE = b"<html>come back later</html>"

Request = collections.namedtuple("Request", "mode name range")


def sha256(content):
    return hashlib.sha256(content).hexdigest()


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers GET /MODE/NAME; what the modes are stands in the tests."""

    def do_GET(self):
        mode, name = self.path.strip("/").split("/")
        wanted = self.headers.get("Range")
        self.server.requests.append(Request(mode, name, wanted))
        content = self.server.files[name]
        content = {"other": OTHER, "short": content[:500], "longer": content + b"more", "page": PAGE}.get(mode, content)
        begin = int(wanted[len("bytes="):-1]) if wanted and mode not in ("plain", "stuck", "page") else 0
        if mode == "gone" or (mode == "busy" and len(self.server.requests) == 1):
            return self.send_error(404 if mode == "gone" else 503)
        if begin >= len(content):
            return self.send_error(416)
        self.send_response(206 if begin else 200)
        if begin:
            first = begin + 1 if mode == "wrong" else begin
            self.send_header("Content-Range", f"bytes {first}-{len(content) - 1}/{len(content)}")
        if mode not in ("longer", "page"):
            self.send_header("Content-Length", str(len(content) - begin))
        self.end_headers()
        self.wfile.write(content[begin:begin + 1000] if mode in ("breaks", "stuck") else content[begin:])
        return None

    def log_message(self, *_):
        pass


def tgz_of(members):
    """Members are (name, content), or (name, None) for a link to /etc/passwd."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as file:
        for name, content in members:
            info = tarfile.TarInfo(name)
            if content is None:
                info.type, info.linkname = tarfile.SYMTYPE, "/etc/passwd"
                file.addfile(info)
            else:
                info.size = len(content)
                file.addfile(info, io.BytesIO(content))
    return packed.getvalue()


def zip_of(members):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in members:
            file.writestr(name, content)
    return packed.getvalue()


class GetData(unittest.TestCase):
    def setUp(self):
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.server.files, self.server.requests = {"a.bin": CONTENT}, []
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.addCleanup(self.server.server_close)
        self.addCleanup(self.server.shutdown)
        self.home = pathlib.Path(temporary.name)
        self.folder = self.home / "set"
        self.entry = {"name": "a.bin", "bytes": len(CONTENT), "sha256": sha256(CONTENT)}

    def url(self, mode):
        return f"http://127.0.0.1:{self.server.server_address[1]}/{mode}"

    def run_script(self, *arguments):
        environment = {**os.environ, "no_proxy": "*", "NO_PROXY": "*"}
        return subprocess.run([sys.executable, str(SCRIPT), *map(str, arguments)], capture_output=True, text=True,
                              cwd=self.home, env=environment, timeout=120)

    def get(self, mode=None, *entries):
        """Runs the script for a set of these entries, or of the one that all tests share."""
        table = self.home / "table.json"
        table.write_text(json.dumps({"set": {"about": "a test", "files": entries or [self.entry]}}))
        base = ["--url-base", self.url(mode)] if mode else []
        return self.run_script("set", self.folder, "--table", table, "--pause", 0, *base)

    def write(self, name, content):
        self.folder.mkdir(exist_ok=True)
        (self.folder / name).write_bytes(content)

    def names(self):
        return sorted(path.name for path in self.folder.iterdir())

    def check_right(self, result):
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual((self.folder / "a.bin").read_bytes(), CONTENT)
        self.assertEqual(self.names(), ["a.bin"])

    def check_failed(self, result, reason):
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn(reason, result.stderr)
        self.assertFalse((self.folder / "a.bin").exists())

    # --- fetching

    def test_a_file_is_fetched_once(self):
        result = self.get("ranges")
        self.check_right(result)
        self.assertIn("set: fetched and checked: ", result.stdout)
        self.assertIn("5,000 of 5,000 bytes", result.stderr)
        again = self.get("ranges")
        self.check_right(again)
        self.assertIn("there already, checked", again.stdout)
        self.assertEqual(self.server.requests, [Request("ranges", "a.bin", None)])

    def test_the_folder_is_data_name_if_none_is_given(self):
        table = self.home / "table.json"
        table.write_text(json.dumps({"set": {"about": "a test", "files": [self.entry]}}))
        result = self.run_script("set", "--table", table, "--url-base", self.url("ranges") + "/")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual((self.home / "data" / "set" / "a.bin").read_bytes(), CONTENT)

    def test_a_damaged_file_is_fetched_again(self):
        self.write("a.bin", OTHER)
        self.check_right(self.get("ranges"))
        self.write("a.bin", CONTENT[:-1])
        self.check_right(self.get("ranges"))
        self.assertEqual(len(self.server.requests), 2)

    def test_md5_does_where_nothing_else_is_known(self):
        self.entry["md5"] = hashlib.md5(CONTENT).hexdigest()
        del self.entry["sha256"]
        self.check_right(self.get("ranges"))
        self.entry["md5"] = hashlib.md5(OTHER).hexdigest()
        (self.folder / "a.bin").unlink()
        self.check_failed(self.get("ranges"), "its md5 is ")

    def test_a_download_goes_on_where_it_stopped(self):
        self.write("a.bin.part", CONTENT[:700])
        self.check_right(self.get("ranges"))
        self.assertEqual(self.server.requests, [Request("ranges", "a.bin", "bytes=700-")])

    def test_a_whole_part_needs_no_server(self):
        self.write("a.bin.part", CONTENT)
        self.check_right(self.get("ranges"))
        self.assertEqual(self.server.requests, [])

    def test_without_ranges_it_starts_over(self):
        self.write("a.bin.part", OTHER[:700])  # of which nothing stays
        self.check_right(self.get("plain"))
        self.assertEqual(self.server.requests, [Request("plain", "a.bin", "bytes=700-")])

    def test_a_connection_that_breaks_is_taken_up_again(self):
        self.check_right(self.get("breaks"))
        self.assertEqual([one.range for one in self.server.requests],
                         [None, "bytes=1000-", "bytes=2000-", "bytes=3000-", "bytes=4000-"])

    def test_a_server_that_never_gets_further_is_given_up(self):
        self.check_failed(self.get("stuck"), "; 1,000 of 5,000 bytes are there")
        self.assertEqual((self.folder / "a.bin.part").read_bytes(), CONTENT[:1000])  # for the next time
        self.assertEqual(len(self.server.requests), 5)  # one with progress, four without
        self.check_right(self.get("ranges"))

    def test_a_server_that_is_busy_is_asked_again(self):
        result = self.get("busy")
        self.check_right(result)
        self.assertIn("the server says 503", result.stderr)

    def test_no_server_is_an_error(self):
        port = self.server.server_address[1]
        self.server.shutdown()
        self.server.server_close()
        self.check_failed(self.get("ranges"), f"http://127.0.0.1:{port}/ranges/a.bin: ")

    # --- what is not the published file

    def test_a_wrong_sum_throws_the_download_away(self):
        result = self.get("other")
        self.check_failed(result, f"its sha256 is {sha256(OTHER)}; that of the published file is {sha256(CONTENT)}")
        self.assertIn("what came is thrown away", result.stderr)
        self.assertEqual(self.names(), [])
        self.check_right(self.get("ranges"))

    def test_a_part_of_another_file_is_thrown_away(self):
        self.write("a.bin.part", OTHER[:700])
        result = self.get("ranges")
        self.check_right(result)
        self.assertIn("; starting over, without the part that was there", result.stderr)
        self.assertEqual([one.range for one in self.server.requests], ["bytes=700-", None])
        (self.folder / "a.bin").unlink()
        self.write("a.bin.part", OTHER)  # all of it
        self.check_right(self.get("ranges"))
        self.assertEqual([one.range for one in self.server.requests[2:]], [None])

    def test_an_address_starts_over_once(self):
        self.write("a.bin.part", CONTENT[:700])
        self.check_failed(self.get("other"), "what came is thrown away")
        self.assertEqual([one.range for one in self.server.requests], ["bytes=700-", None])
        self.assertEqual(self.names(), [])

    def test_a_page_in_the_files_place_does_no_harm_to_a_mirror(self):
        self.entry["urls"] = [self.url(mode) + "/a.bin" for mode in ("page", "ranges")]
        self.check_right(self.get())
        self.assertEqual([one.range for one in self.server.requests if one.mode == "ranges"],
                         [f"bytes={len(PAGE)}-", None])

    def test_a_part_that_is_too_long_is_thrown_away(self):
        self.write("a.bin.part", CONTENT + b"more")
        self.check_right(self.get("ranges"))
        self.assertEqual(self.server.requests, [Request("ranges", "a.bin", None)])

    def test_another_range_than_was_asked_for_is_refused(self):
        self.write("a.bin.part", CONTENT[:700])
        self.check_failed(self.get("wrong"), "the server sends the range '701-4999/5000' where 700- was asked for")
        self.assertEqual((self.folder / "a.bin.part").read_bytes(), CONTENT[:700])

    def test_another_length_is_refused(self):
        self.check_failed(self.get("short"), "the server has a file of 500 bytes; the published one has 5000")
        self.write("a.bin.part", CONTENT[:300])
        self.check_failed(self.get("short"), "the server has a file of 500 bytes; the published one has 5000")

    def test_a_part_beyond_the_servers_file_starts_over(self):
        self.write("a.bin.part", CONTENT[:700])
        result = self.get("short")
        self.check_failed(result, "the server has a file of 500 bytes; the published one has 5000")
        self.assertIn("the server says 416", result.stderr)
        self.assertEqual([one.range for one in self.server.requests], ["bytes=700-", None])

    def test_more_than_was_published_is_refused(self):
        self.check_failed(self.get("longer"), "more than the 5,000 bytes of the published file come")
        self.check_right(self.get("ranges"))

    def test_mirrors_are_tried_in_order(self):
        self.entry["urls"] = [self.url(mode) + "/a.bin" for mode in ("gone", "other", "ranges")]
        result = self.get()
        self.check_right(result)
        self.assertIn("the server says 404", result.stderr)
        self.assertEqual([one.mode for one in self.server.requests], ["gone", "other", "ranges"])

    def test_only_http_is_an_address(self):
        secret = self.home / "secret"
        secret.write_bytes(CONTENT)
        self.entry["urls"] = [secret.as_uri()]
        self.check_failed(self.get(), "is no address of http or https")

    def test_no_name_leads_out_of_the_folder(self):
        self.server.files["b.bin"] = CONTENT
        entry = {**self.entry, "name": "../../b.bin"}
        self.assertEqual(self.get("ranges", entry).returncode, 0)
        self.assertEqual(self.names(), ["b.bin"])
        self.assertEqual(self.get("ranges", {**self.entry, "name": "x/.."}).returncode, 1)

    # --- archives

    def archive(self, name, packed, *members):
        self.server.files[name] = packed
        return {"name": name, "bytes": len(packed), "sha256": sha256(packed),
                "members": [{"name": one, "bytes": len(content), "sha256": sha256(content)}
                            for one, content in members]}

    def test_members_of_a_tgz_are_unpacked_by_their_names_alone(self):
        packed = tgz_of([("./top/b.txt", b"beta"), ("../evil.txt", b"evil"), ("top/link", None),
                         ("top/c.txt", b"gamma"), ("top/not-asked-for", b"x"), ("/abs.txt", b"evil")])
        entry = self.archive("s.tgz", packed, ("top/b.txt", b"beta"), ("top/c.txt", b"gamma"))
        result = self.get("ranges", entry)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(self.names(), ["b.txt", "c.txt"])
        self.assertEqual((self.folder / "c.txt").read_bytes(), b"gamma")
        self.assertEqual(sorted(path.name for path in self.home.iterdir()), ["set", "table.json"])
        self.assertEqual(self.get("ranges", entry).returncode, 0)
        self.assertEqual(len(self.server.requests), 1)
        (self.folder / "b.txt").write_bytes(b"bet")
        self.assertEqual(self.get("ranges", entry).returncode, 0)
        self.assertEqual((self.folder / "b.txt").read_bytes(), b"beta")

    def test_members_of_a_zip_are_unpacked(self):
        packed = zip_of([("d/", b""), ("text", CONTENT * 50), ("../evil", b"evil")])
        result = self.get("breaks", self.archive("s.zip", packed, ("text", CONTENT * 50)))
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(self.names(), ["text"])
        self.assertEqual((self.folder / "text").read_bytes(), CONTENT * 50)

    def test_an_archive_that_was_there_stays(self):
        packed = tgz_of([("b.txt", b"beta")])
        entry = self.archive("s.tgz", packed, ("b.txt", b"beta"))
        self.write("s.tgz", packed)
        self.assertEqual(self.get("ranges", entry).returncode, 0)
        self.assertEqual(self.names(), ["b.txt", "s.tgz"])
        self.assertEqual(self.server.requests, [])

    def test_members_that_are_not_as_published_are_refused(self):
        for packed in (tgz_of([("b.txt", b"BETA")]), tgz_of([("b.txt", b"beta and more")]),
                       zip_of([("b.txt", b"bet")])):
            result = self.get("ranges", self.archive("s.tgz", packed, ("b.txt", b"beta")))
            self.assertEqual(result.returncode, 1)
            self.assertIn("b.txt of s.tgz is not as published: ", result.stderr)
            self.assertEqual(self.names(), ["s.tgz"])
        result = self.get("ranges", self.archive("s.tgz", tgz_of([("b.txt", None)]), ("b.txt", b"beta")))
        self.assertEqual(result.returncode, 1)
        self.assertIn("s.tgz has no b.txt", result.stderr)
        result = self.get("ranges", self.archive("s.tgz", b"no archive", ("b.txt", b"beta")))
        self.assertEqual(result.returncode, 1)
        self.assertIn("s.tgz cannot be unpacked: ", result.stderr)

    # --- the program

    def test_sets_are_listed_and_unknown_ones_refused(self):
        listed = self.run_script("--list")
        self.assertEqual(listed.returncode, 0)
        names = [line.split()[0] for line in listed.stdout.splitlines()]
        self.assertEqual(names, ["mnist", "fashion_mnist", "cifar10", "ptb", "text8", "word_analogies",
                                 "california_housing", "iris"])
        unknown = self.run_script("imagenet")
        self.assertEqual(unknown.returncode, 2)
        self.assertIn("no set is called imagenet; there are mnist, ", unknown.stderr)
        self.assertEqual(self.run_script().returncode, 2)
        self.assertIn("scripts/get-data NAME [FOLDER]", self.run_script("--help").stdout)


class Table(unittest.TestCase):
    """The script's own table: that it says the same as the library's, in data/set_tables.cpp."""

    def setUp(self):
        loader = importlib.machinery.SourceFileLoader("get_data", str(SCRIPT))
        spec = importlib.util.spec_from_loader("get_data", loader)
        self.module = importlib.util.module_from_spec(spec)
        before, sys.dont_write_bytecode = sys.dont_write_bytecode, True
        loader.exec_module(self.module)
        sys.dont_write_bytecode = before
        self.files = [entry for one in self.module.TABLE.values() for entry in one["files"]]

    def test_every_file_has_a_length_a_sum_and_addresses(self):
        for entry in self.files:
            self.assertGreaterEqual(len(entry["urls"]), 2, entry["name"])
            for one in [entry, *entry.get("members", [])]:
                self.assertGreater(one["bytes"], 0)
                self.assertRegex(one.get("sha256", one.get("md5", "")), "^([0-9a-f]{64}|[0-9a-f]{32})$")

    def test_it_agrees_with_the_librarys(self):
        text = (ROOT / "data" / "set_tables.cpp").read_text(encoding="utf-8")
        of_samples = {"word_analogies"}  # which the library has no function for
        files = [entry for name, one in self.module.TABLE.items() if name not in of_samples for entry in one["files"]]
        addresses = {entry["urls"][0]: entry.get("sha256", entry.get("md5")) for entry in files}
        for address, sum_ in addresses.items():
            self.assertIn(f'"{address}"', text)
            self.assertRegex(text, f'"(sha256|md5) {sum_}"')
        self.assertEqual(set(re.findall(r'"(https?://[^"]*)"', text)), set(addresses))
        for entry in files:
            for one in entry.get("members", []):
                name = one["name"].rpartition("/")[2]
                if not name.endswith((".meta.txt", ".domain")):  # which the library does not read
                    self.assertIn(f'"{name}", {one["bytes"]}, "{one["sha256"]}"', text)


if __name__ == "__main__":
    unittest.main()
