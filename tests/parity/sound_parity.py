"""Compares what becomes of files of sound with soundfile, soxr and transformers' feature extractor
of Whisper, as users of Qwen2-Audio and Qwen2.5-Omni call them by librosa.load."""

import argparse
import math
import os
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

import numpy
import qwen_processors
import soundfile
import soxr
import torch
from transformers import WhisperFeatureExtractor

torch.set_num_threads(1)

MAX_SAMPLE_ERROR = 2e-6  # soxr's wheel has other vector kernels than Debian's library
MAX_ROW_ERROR = 2e-5
RATE = 16000
BINS = 128


def tone(random, rate, seconds, channels):
    """A chirp that grows and fades, with some noise."""
    time = numpy.arange(round(rate * seconds)) / rate
    pitch = random.uniform(80, 3000)
    wave = numpy.sin(2 * numpy.pi * pitch * time * (1 + 0.1 * time)) * numpy.sin(numpy.pi * time)
    noise = random.normal(0, 0.02, (len(time), channels))
    return (0.5 * wave[:, None] * random.uniform(0.2, 1, channels) + noise).astype(numpy.float32)


def write_files(folder):
    """Yields paths; each kind of file, rates, channels, lengths around edges, silence."""
    random = numpy.random.default_rng(3)
    kinds = [("wav", "PCM_16", 16000, 1, 1.43), ("wav", "FLOAT", 44100, 2, 0.9),
             ("wav", "PCM_24", 48000, 6, 0.5), ("wav", "PCM_U8", 8000, 1, 3.29),
             ("flac", "PCM_16", 22050, 2, 1.7), ("flac", "PCM_24", 96000, 1, 0.3),
             ("ogg", "VORBIS", 44100, 2, 1.1), ("ogg", "OPUS", 48000, 1, 1.2),
             ("mp3", "MPEG_LAYER_III", 44100, 2, 1.3), ("mp3", "MPEG_LAYER_III", 16000, 1, 2.0),
             ("wav", "PCM_16", 16000, 1, 30.0), ("wav", "PCM_16", 16000, 1, 29.99),
             ("wav", "PCM_16", 11025, 1, 29.5)]
    for samples in (481, 640, 641, 959, 16001, 160 * 99, 160 * 99 + 1):
        kinds.append(("wav", "FLOAT", 16000, 1, samples / RATE))
    for number, (ending, subtype, rate, channels, seconds) in enumerate(kinds):
        path = folder / f"{number}.{ending}"
        soundfile.write(path, tone(random, rate, seconds, channels), rate, subtype=subtype)
        yield path
    path = folder / "silence.wav"
    soundfile.write(path, numpy.zeros(8000, numpy.float32), RATE, subtype="PCM_16")
    yield path


def their_samples(path):
    """As librosa.load(path, sr=16000) computes them."""
    samples, rate = soundfile.read(path, dtype="float32")
    if samples.ndim > 1:
        samples = numpy.mean(samples.T, axis=0)
    if rate == RATE:
        return samples
    length = int(math.ceil(len(samples) * float(RATE) / rate))
    resampled = soxr.resample(samples, rate, RATE, quality="HQ")
    return numpy.pad(resampled, (0, max(0, length - len(resampled))))[:length]


def frames_of_audio(samples):
    """Frames, rows and tokens of Qwen2-Audio, by the extractor of its processor."""
    given = WhisperFeatureExtractor(feature_size=BINS)(
        samples, sampling_rate=RATE, return_attention_mask=True, return_tensors="np")
    used = (int(given["attention_mask"].sum()) + 1) // 2
    return min(3000, 2 * used + 1), given["input_features"][0].T, used // 2


def frames_of_omni(samples):
    """The same of Qwen2.5-Omni, by its processor."""
    made = qwen_processors.omni_processor()(text="<|audio_bos|><|AUDIO|><|audio_eos|>",
                                            audio=[samples], return_tensors="np")
    return (int(made["feature_attention_mask"].sum()), made["input_features"][0].T,
            qwen_processors.count_omni_tokens(made, "audio"))


def compare(path, samples, frames, rows, tokens, frames_of):
    """Returns the worst errors; raises AssertionError where sizes differ."""
    theirs = their_samples(path)
    assert len(samples) == len(theirs), f"{len(samples)} samples, expected {len(theirs)}"
    count, expected, their_tokens = frames_of(samples)
    assert frames == count, f"{frames} frames, expected {count}"
    assert tokens == their_tokens, f"{tokens} tokens, expected {their_tokens}"
    return (float(numpy.abs(samples - theirs).max(initial=0)),
            float(numpy.abs(rows.reshape(frames, BINS) - expected[:frames]).max()))


def refused_files(folder):
    """Yields (path, code)."""
    noise = numpy.random.default_rng(1).normal(0, 0.1, 16000 * 31).astype(numpy.float32)
    for name, samples, code in (("long", 16000 * 31, "long_sound"), ("short", 320, "short_sound"),
                                ("empty", 0, "empty_sound")):
        soundfile.write(folder / f"{name}.wav", noise[:samples], RATE)
        yield folder / f"{name}.wav", code
    (folder / "text.wav").write_text("this is no sound\n" * 30)
    yield folder / "text.wav", "unknown_sound"
    soundfile.write(folder / "other.aiff", noise[:16000], RATE)
    yield folder / "other.aiff", "unknown_sound"
    soundfile.write(folder / "cut.flac", noise[:32000], RATE)
    whole = (folder / "cut.flac").read_bytes()
    (folder / "cut.flac").write_bytes(whole[:len(whole) // 2])
    yield folder / "cut.flac", "sound_damaged"


def run_ours(binary, folder, chunk, positions, paths):
    """Yields (path, samples, frames, rows, tokens); then what is refused, as text."""
    (folder / "list").write_text(f"{chunk} {positions}\n" + "".join(f"{path}\n" for path in paths))
    done = subprocess.run([binary, folder / "list", folder / "out"], check=True, text=True,
                          capture_output=True)
    with open(folder / "out", "rb") as out:
        def take(width):
            count = struct.unpack("<i", out.read(4))[0]
            return count, numpy.frombuffer(out.read(4 * count * width), "<f4")

        for path in paths:
            _, samples = take(1)
            frames, rows = take(BINS)
            yield path, samples, frames, rows, take(0)[0]
    yield done.stdout


def compare_all(answers, frames_of, faults, worst):
    for path, *ours in answers:
        try:
            errors = compare(path, *ours, frames_of)
        except AssertionError as error:
            faults.append(f"{path.name}: {error}")
            continue
        worst[:] = [max(pair) for pair in zip(worst, errors)]
        if not (errors[0] <= MAX_SAMPLE_ERROR and errors[1] <= MAX_ROW_ERROR):
            faults.append(f"{path.name}: samples differ by {errors[0]:.1e}, rows by {errors[1]:.1e}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary", required=True, help="the executable sound_rows")
    options = parser.parse_args()
    faults, worst = [], [0.0, 0.0]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        paths, refused = list(write_files(folder)), list(refused_files(folder))
        *answers, said = run_ours(options.binary, folder, 0, 1500,
                                  [*paths, *(path for path, _ in refused)])
        expected = "".join(f"{path} {code}\n" for path, code in refused)
        if said != expected:
            faults.append(f"refused:\n{said}expected:\n{expected}")
        compare_all(answers[:len(paths)], frames_of_audio, faults, worst)
        # The spectrogram of Qwen2.5-Omni is ten times as long, so a few files are enough.
        *answers, said = run_ours(options.binary, folder, 200, 15000,
                                  [*paths[:2], paths[10], *paths[13:17], folder / "long.wav"])
        if said:
            faults.append(f"refused of Qwen2.5-Omni:\n{said}")
        compare_all(answers, frames_of_omni, faults, worst)
    print("\n".join(faults))
    print(f"{len(paths)} files, {len(refused)} refused; worst: samples {worst[0]:.1e}, "
          f"rows {worst[1]:.1e}")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
