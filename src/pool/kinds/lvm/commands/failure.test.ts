import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CommandError } from '../../../../command/run.ts';
import { failureOf, type LvmFailure, wasKilled } from './failure.ts';

test('what a command of LVM failed for is known by its words', () => {
  const said: Readonly<Record<string, LvmFailure>> = {
    '  Volume group "vg0" has insufficient free space (2042 extents): 20000 required.': 'no-space',
    '  Failed to find logical volume "vg0/nix"': 'no-volume',
    '  Volume group "vgx" not found\n  Cannot process volume group vgx': 'no-group',
    '  Multiple VGs found with the same name: skipping vg0\n  Use --select vg_uuid=<uuid> in place of the VG name.':
      'two-groups',
    '  Logical volume vg0/vol-b in use.': 'in-use',
    '  New size (12 extents) matches existing size (12 extents).': 'not-larger',
    '  New size given (10 extents) not larger than existing size (12 extents)': 'not-larger',
    '  Activation of logical volume vg0/vol-b is prohibited while logical volume vg0/vol-b_rimage_0 is active.':
      'half-active',
    '  Logical Volume "holdfast-thin" already exists in volume group "vg0"': 'exists',
    "  WARNING: Couldn't find device with uuid SOk4l3.\n  Cannot change VG vg0 while PVs are missing.\n  See vgreduce --removemissing.\n  Cannot process volume group vg0":
      'incomplete-group',
    '  VG vg0 metadata on /dev/vda (521 bytes) too large for circular buffer (512 bytes)': 'no-metadata-space',
    '  VG vg0 17 metadata on /dev/sda (522310 bytes) exceeds maximum metadata size (521728 bytes)\n  WARNING: Failed to write an MDA of VG vg0.':
      'no-metadata-space',
    '  Cannot create new thin volume, free space in thin pool fast/holdfast-thin reached threshold.': 'no-space',
    '  Maximum number of logical volumes (2) reached in volume group fast': 'too-many',
    "  Can't get lock for fast\n  Cannot process volume group fast": 'locked',
    '  Volume group vg0 is exported\n  Cannot process volume group vg0': 'closed',
    '  Cannot access VG vg0 with system ID other with local system ID this.': 'closed',
    '  Cannot access VG vg0 as it is read-only': 'closed',
    '  Refusing activation of partial LV vg0/vol-b.  Use --activationmode partial to override.': 'incomplete-group',
    '  Snapshot origin volumes can be resized only while inactive: try lvchange -an.': 'origin-in-use',
    '  something else': 'other',
  };
  for (const [stderr, failure] of Object.entries(said)) {
    assert.equal(failureOf(new CommandError('lvm', 5, 'failed', stderr)), failure, stderr);
  }
  assert.equal(failureOf(new CommandError('lvm', undefined, 'is not installed', '')), 'not-installed');
});

test('a command that was killed is told from one that failed', () => {
  const ended = (exitCode: number | undefined, reason: string) =>
    wasKilled(new CommandError('lvm', exitCode, reason, ''));
  assert.equal(ended(undefined, 'was killed by SIGKILL'), true);
  assert.equal(ended(137, 'failed with exit code 137'), true);
  assert.equal(ended(5, 'failed with exit code 5'), false);
  assert.equal(ended(undefined, 'is not installed'), false);
  assert.equal(ended(undefined, 'could not be started (EAGAIN)'), false);
});
