"""Holds video files against FFmpeg's own program (pixels, sound) and transformers' processors (which
frames are taken), and trains on them as on the same frames as pictures.

usage: video_files.py VIDEO_PROBE TRIBUTARY
"""

import json
import os
import pathlib
import random
import shutil
import subprocess
import sys

os.environ.setdefault("HF_HUB_OFFLINE", "1")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "train"))

import numpy
import PIL.Image
import run_case
import tiny_run

SKIPPED = 77
PROBE = None
VIDEOS = {  # name: how ffmpeg makes it
    "plain.mp4": ["-r", "24", "-t", "3", "-c:v", "libx264", "-pix_fmt", "yuv420p"],
    "film.mkv": ["-r", "30000/1001", "-t", "2", "-c:v", "mpeg4", "-q:v", "3"],
    "web.webm": ["-r", "15", "-t", "2", "-c:v", "libvpx-vp9", "-b:v", "300k"],
    "stated.mp4": ["-r", "10", "-t", "2", "-c:v", "libx264", "-pix_fmt", "yuv444p",
                   "-colorspace", "bt709", "-color_primaries", "bt709", "-color_trc", "bt709"],
}
SOUNDS = {  # name: how ffmpeg makes it of a tone in each channel
    "talk.m4a": ["-c:a", "aac", "-ar", "44100"],
    "talk.aac": ["-c:a", "aac", "-ar", "16000", "-ac", "1"],
    "talk.webm": ["-c:a", "libopus", "-ar", "48000"],
    "talk.wma": ["-c:a", "wmav2", "-ar", "22050"],
    "film.mp4": ["-f", "lavfi", "-i", "testsrc=size=32x32:rate=8:duration=2", "-c:a", "aac", "-ac", "1"],
    "film.mkv": ["-c:a", "flac", "-sample_fmt", "s16"],
    "film.avi": ["-c:a", "pcm_u8", "-ar", "8000"],
    "deep.mov": ["-c:a", "pcm_s32le", "-ar", "32000"],
}


def ffmpeg(*words):
    return subprocess.run(["ffmpeg", "-v", "error", "-y", *map(str, words)], check=True,
                          stdout=subprocess.PIPE).stdout


def make_video(path, words, size="70x50", seed=0):
    ffmpeg("-f", "lavfi", "-i", f"testsrc2=size={size}:rate=60,hue=h={40 * seed}",
           *(["-vf", f"scale=out_color_matrix=bt709,hue=h={40 * seed}"] if "bt709" in words else []),
           *words, path)


class VideoFiles(run_case.RunCase):
    def probe(self, *words, **options):
        return subprocess.run([PROBE, *map(str, words)], text=True, capture_output=True, **options)

    def test_frames_are_those_of_ffmpeg(self):
        for name, words in VIDEOS.items():
            with self.subTest(name):
                path = self.shared / name
                make_video(path, words)
                done = self.probe("frames", path, 4, self.shared / "raw")
                self.assertEqual(done.returncode, 0, done.stderr)
                header, taken = done.stdout.splitlines()
                width, height, total, _ = header.split()
                frame = 3 * int(width) * int(height)
                everything = ffmpeg("-i", path, "-fps_mode", "passthrough", "-f", "rawvideo",
                                    "-pix_fmt", "rgb24", "-")
                self.assertEqual(len(everything) // frame, int(total))
                expected = b"".join(everything[int(i) * frame:(int(i) + 1) * frame]
                                    for i in taken.split())
                found = (self.shared / "raw").read_bytes()
                self.assertEqual(len(found), len(expected))
                worst = max(abs(a - b) for a, b in zip(found, expected))
                self.assertLessEqual(worst, 0, f"{name}: pixels differ by up to {worst}")

    def test_frames_are_taken_as_by_transformers(self):
        from transformers import Qwen2VLVideoProcessor, Qwen3VLVideoProcessor
        from transformers.video_utils import VideoMetadata

        rng = random.Random(1)
        cases = [(rng.choice([2, 3, 5, 30, 101, 719, 5000]) + rng.randrange(7),
                  rng.choice([24, 25, 29.97, 60, 10.5]), rng.choice([0.5, 1, 2, 3, 24]), third)
                 for third in (0, 1) for _ in range(150)]
        done = self.probe("sample", input="\n".join(" ".join(map(str, each)) for each in cases))
        self.assertEqual(done.returncode, 0, done.stderr)
        processors = [Qwen2VLVideoProcessor(), Qwen3VLVideoProcessor()]
        for (total, video_fps, fps, third), line in zip(cases, done.stdout.splitlines(), strict=True):
            expected = processors[third].sample_frames(
                VideoMetadata(total_num_frames=total, fps=video_fps), fps=fps,
                **({} if third else {"min_frames": 4, "max_frames": 768}))
            self.assertEqual([int(i) for i in line.split()], [int(i) for i in expected],
                             (total, video_fps, fps, third))

    def test_a_run_learns_from_files_as_from_their_frames(self):
        data = self.shared / "data"
        of_files, of_frames = [], []
        for number in range(8):
            name = f"clip-{number}.mp4"
            make_video(data / name, ["-r", "8", "-t", "2", "-c:v", "libx264", "-qp", "0"],
                       size="56x28", seed=number)
            done = self.probe("frames", data / name, 2, self.shared / "raw")
            self.assertEqual(done.returncode, 0, done.stderr)
            pixels, pictures = (self.shared / "raw").read_bytes(), []
            for i in range(len(done.stdout.splitlines()[1].split())):
                pictures.append(f"images/{number}-{i}.png")
                frame = pixels[i * 56 * 28 * 3:(i + 1) * 56 * 28 * 3]
                PIL.Image.frombytes("RGB", (56, 28), frame).save(data / pictures[-1])
            chat = lambda part: {"messages": [
                {"role": "user", "content": [part, {"type": "text", "text": "colour?"}]},
                {"role": "assistant", "content": list(tiny_run.COLOURS)[number % 4]}]}
            of_files.append(chat({"type": "video", "video": name}))
            of_frames.append(chat({"type": "video", "video": pictures, "fps": 2}))
        losses = []
        for kind, lines in (("files", of_files), ("frames", of_frames)):
            tiny_run.write_lines(data / f"{kind}.jsonl", lines)
            config = self.config(kind, run={"steps": 3}, data={
                "sources": [{"name": "clips", "path": str(data / f"{kind}.jsonl")}],
                "held_out_fraction": 0.2}, validation={"max_new_tokens": 2})
            done = tiny_run.train(self.program, config)
            self.assertEqual(done.returncode, 0, done.stderr)
            losses.append([line["loss"] for line in
                           tiny_run.read_lines(self.shared / kind / "metrics.jsonl")])
        self.assertEqual(*losses)
        inspected = subprocess.run([self.program, "data", "inspect", str(data / "files.jsonl")],
                                   text=True, capture_output=True)
        self.assertEqual(inspected.returncode, 0, inspected.stderr)
        self.assertIn("clips 8", inspected.stdout)

    def make_sound(self, name, *words):
        path = self.shared / name
        ffmpeg("-f", "lavfi", "-i",
               "aevalsrc=0.4*sin(440*2*PI*t)*t|0.3*sin(660*2*PI*t*t):s=48000:d=1.3", *words, path)
        return path

    def test_sound_is_that_of_ffmpeg(self):
        for name, words in SOUNDS.items():
            with self.subTest(name):
                path = self.make_sound(name, *words)
                done = self.probe("sound", path, self.shared / "raw")
                self.assertEqual(done.returncode, 0, done.stderr)
                count, rate = map(int, done.stdout.split())
                asked = dict(zip(words, words[1:])).get("-ar", "48000")
                self.assertEqual(rate, int(asked))
                self.assertAlmostEqual(count / rate, 1.3, delta=0.12)
                channels = 1 if "-ac" in words else 2
                raw = numpy.frombuffer(ffmpeg("-i", path, "-map", "0:a:0", "-f", "f32le", "-c:a",
                                              "pcm_f32le", "-"), "<f4")
                expected = raw.reshape(-1, channels).mean(axis=1)
                found = numpy.fromfile(self.shared / "raw", "<f4")
                self.assertEqual((len(found), count), (len(expected), len(expected)))
                self.assertLessEqual(numpy.abs(found - expected).max(), 1e-6)
                self.assertGreater(numpy.abs(found).max(), 0.1)

    def test_names_what_is_no_sound(self):
        whole = self.make_sound("whole.m4a", "-c:a", "aac").read_bytes()
        first = self.make_sound("first.m4a", "-c:a", "aac", "-movflags", "+faststart").read_bytes()
        make_video(self.shared / "silent.mp4", VIDEOS["plain.mp4"])
        ffmpeg("-f", "lavfi", "-i", "anullsrc=r=8000:cl=mono", "-t", "601", self.shared / "long.m4a")
        for name, content, words in [
                ("no index", whole[:len(whole) // 2], "sound_damaged"),
                ("cut", first[:len(first) // 2], "sound_damaged"),
                ("silent", (self.shared / "silent.mp4").read_bytes(), "empty_sound: no stream of sound"),
                ("long", (self.shared / "long.m4a").read_bytes(), "sound_limit: more than 600 seconds"),
                ("text", b"no sound at all" * 9, "unknown_sound")]:
            with self.subTest(name):
                (self.shared / "bad").write_bytes(content)
                done = self.probe("sound", self.shared / "bad", self.shared / "raw")
                self.assertEqual(done.returncode, 1, done.stdout)
                self.assertIn(words, done.stderr)

    def test_damaged_sound_is_read_or_refused(self):
        for name in ("talk.m4a", "talk.webm", "talk.aac"):
            path = self.make_sound(name, *SOUNDS[name])
            done = self.probe("damage", path, 1, 60)
            self.assertEqual(done.returncode, 0, done.stderr)
            taken, refused = map(int, done.stdout.split())
            self.assertGreater(taken, 0)
            self.assertGreater(refused, 0)

    def test_names_what_is_no_video(self):
        path = self.shared / "cut.mp4"
        make_video(path, VIDEOS["plain.mp4"])
        whole = path.read_bytes()
        picture = next((self.shared / "data/images").glob("*.png")).read_bytes()
        for name, content, words in [("cut", whole[:len(whole) // 3], "video_damaged"),
                                     ("text", b"no video at all" * 9, "no known container"),
                                     ("empty", b"", "video_damaged"),
                                     ("picture", picture, "a picture, no video")]:
            with self.subTest(name):
                path.write_bytes(content)
                done = self.probe("frames", path, 2, self.shared / "raw")
                self.assertEqual(done.returncode, 1)
                self.assertIn(words, done.stderr)


if __name__ == "__main__":
    PROBE = os.path.abspath(sys.argv.pop(1))
    if shutil.which("ffmpeg") is None:
        print("no program ffmpeg")
        sys.exit(SKIPPED)
    run_case.main()
