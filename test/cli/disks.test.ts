import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { describe, test } from 'node:test';
import { shapes } from '../../src/cli/output/shapes.ts';
import { holdfast } from '../support/command.ts';
import { environmentFor } from '../support/driver.ts';
import { Scratch } from '../support/scratch.ts';

/** What the kernel says of disks, by another program's reading: no loop devices, memory, device-mapper, RAID, CD. */
function disksOfKernel(): string[] {
  const listed = execFileSync('lsblk', ['--nodeps', '--noheadings', '--output', 'NAME,TYPE'], { encoding: 'utf8' });
  const disks = listed.split('\n').flatMap((line) => /^(\S+) +disk$/.exec(line)?.[1] ?? []);
  return disks.filter((name) => !/^(zram|nbd|ram)[0-9]/.test(name));
}

describe('holdfast disks', () => {
  test('needs no driver and no pool, and shows the disks that the kernel has', async () => {
    using scratch = new Scratch('cli');
    const { code, stderr, stdout } = await holdfast(['disks', '--json'], environmentFor(scratch));
    assert.equal(stderr, '');
    assert.equal(code, 0);
    const { disks } = shapes.disks.strict().parse(JSON.parse(stdout));
    assert.deepEqual(disks.map(({ name }) => name).sort(), disksOfKernel().sort());
    for (const { name, sizeBytes } of disks) {
      const bytes = execFileSync('lsblk', ['--nodeps', '--noheadings', '--bytes', '--output', 'SIZE', `/dev/${name}`]);
      assert.equal(sizeBytes, bytes.toString().trim(), name);
    }
  });

  test('a table has a line for each', async () => {
    using scratch = new Scratch('cli');
    const { code, stdout } = await holdfast(['disks'], environmentFor(scratch));
    assert.equal(code, 0);
    const [titles, ...lines] = stdout.trimEnd().split('\n');
    assert.match(titles ?? '', /^DISK +SIZE {2}BUS +MEDIA {2}MODEL +SERIAL +FREE {2}WHY NOT, OR ITS NAME$/);
    assert.equal(lines.length, disksOfKernel().length);
  });
});
