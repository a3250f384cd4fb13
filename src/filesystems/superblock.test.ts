import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { closeSync, mkdtempSync, openSync, readSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { mkfsCommand } from '../command/mkfs.ts';
import { type FilesystemType, filesystemTypes } from '../volume/filesystem.ts';
import { canGrow, filesystemSize, superblockRange, whyTooLarge } from './superblock.ts';

const mebibyte = 1n << 20n;
const directory = mkdtempSync('/var/tmp/holdfast-superblock-');
after(() => rmSync(directory, { recursive: true }));

let images = 0;

function image(sizeBytes: bigint): string {
  const path = join(directory, `${images++}.img`);
  writeFileSync(path, '');
  truncateSync(path, Number(sizeBytes));
  return path;
}

function run(program: string, ...args: string[]): void {
  execFileSync(program, args, { stdio: 'pipe' });
}

function superblockOf(path: string, fsType: FilesystemType): Uint8Array {
  const { offsetBytes, lengthBytes } = superblockRange[fsType];
  const bytes = new Uint8Array(lengthBytes);
  const fd = openSync(path, 'r');
  try {
    readSync(fd, bytes, 0, lengthBytes, offsetBytes);
  } finally {
    closeSync(fd);
  }
  return bytes;
}

function sizeOf(path: string, fsType: FilesystemType) {
  const size = filesystemSize(fsType, superblockOf(path, fsType));
  assert.ok(size !== undefined);
  return size;
}

describe('the size of a filesystem that mkfs made', () => {
  const quiet = { ext4: '-qF', xfs: '-qf', btrfs: '-qf' };
  for (const fsType of filesystemTypes) {
    for (const sizeBytes of [400n * mebibyte, (1n << 40n) + 12n * mebibyte]) {
      test(`${fsType}, ${sizeBytes} bytes: it fills its device, and one GiB more is room to grow`, () => {
        const path = image(sizeBytes);
        run(`mkfs.${fsType}`, quiet[fsType], path);
        const size = sizeOf(path, fsType);
        assert.ok(size.sizeBytes <= sizeBytes && size.sizeBytes > sizeBytes - 8n * mebibyte, `${size.sizeBytes}`);
        assert.ok(!canGrow(size, sizeBytes));
        assert.ok(canGrow(size, sizeBytes + (1n << 30n)));
      });
    }
  }

  for (const blockBytes of [1024, 2048, 4096]) {
    test(`ext4 with blocks of ${blockBytes} bytes`, () => {
      const path = image(64n * mebibyte);
      run('mkfs.ext4', '-qF', '-b', `${blockBytes}`, path);
      assert.equal(sizeOf(path, 'ext4').sizeBytes, 64n * mebibyte);
    });
  }
});

describe('room to grow is what resize2fs can use', () => {
  // 1 GiB is a whole number of groups of 128 MiB: a small rest behind them makes no group.
  for (const addedBytes of [4096n, mebibyte, 2n * mebibyte, 3n * mebibyte, 4n * mebibyte, 64n * mebibyte]) {
    test(`1 GiB and ${addedBytes} bytes`, () => {
      const before = 1n << 30n;
      const path = image(before);
      run('mkfs.ext4', '-qF', path);
      const size = sizeOf(path, 'ext4');
      truncateSync(path, Number(before + addedBytes));
      run('e2fsck', '-fp', path);
      run('resize2fs', path);
      const grown = sizeOf(path, 'ext4');
      // Once grown there is nothing left to do: a stage must not run resize2fs every time.
      assert.ok(!canGrow(grown, before + addedBytes));
      assert.equal(canGrow(size, before + addedBytes), grown.sizeBytes > size.sizeBytes);
    });
  }
});

describe('no superblock', () => {
  for (const fsType of filesystemTypes) {
    test(`${fsType}: zeroes, or too few bytes`, () => {
      assert.equal(filesystemSize(fsType, new Uint8Array(4096)), undefined);
      assert.equal(filesystemSize(fsType, new Uint8Array(10)), undefined);
    });
  }
  test('another filesystem', () => {
    const path = image(400n * mebibyte);
    run('mkfs.xfs', '-qf', path);
    assert.equal(filesystemSize('ext4', superblockOf(path, 'ext4')), undefined);
    assert.equal(filesystemSize('btrfs', superblockOf(path, 'btrfs')), undefined);
  });
});

describe('R30: how large an ext4 can grow', () => {
  const tebibyte = 1n << 40n;

  function whyNot(sizeBytes: bigint, wantedBytes: bigint): string | undefined {
    const path = image(sizeBytes);
    const { args, program } = mkfsCommand({
      ...{ path, sizeBytes, fsType: 'ext4', blockSizeBytes: 4096, extraArguments: [] },
    });
    run(program, ...args);
    return whyTooLarge('ext4', superblockOf(path, 'ext4'), wantedBytes);
  }

  for (const sizeBytes of [16n * mebibyte, 64n * mebibyte, 128n * mebibyte]) {
    test(`one of ${sizeBytes / mebibyte} MiB to 3 TiB, and no further: resize2fs damages it`, () => {
      assert.equal(whyNot(sizeBytes, 3n * tebibyte), undefined);
      assert.match(whyNot(sizeBytes, 4n * tebibyte) ?? '', /grows to 3Ti at most/);
    });
  }

  test('one of 1 GiB as far as ext4 goes', () => {
    assert.equal(whyNot(1n << 30n, 16n * tebibyte), undefined);
  });
});
