import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync } from 'node:fs';
import { describe, test } from 'node:test';
import { withoutOthersLoops } from '../support/child.ts';
import { DriverProcess, driverCommand } from '../support/driver.ts';
import { Scratch } from '../support/scratch.ts';

/** As a container has a host path: a mount of its own, in which it sees what the host mounts later. */
const inContainer = [
  ...['unshare', '--mount', '--propagation', 'slave', 'sh', '-ec'],
  `${withoutOthersLoops}\nmount --rbind "$0/host" "$0/inside"; exec "$@"`,
] as const;

describe('a pool directory whose disk is not mounted yet', () => {
  for (const section of ['directory: PATH', 'kind: directory, path: PATH', 'file: PATH, size: 512Mi']) {
    test(`has no pool made in it on the system's disk (${section}); the pool opens when the disk comes`, async () => {
      using scratch = new Scratch('late');
      const host = scratch.join('host');
      // As the kubelet makes it (hostPath, DirectoryOrCreate).
      mkdirSync(`${host}/fast`, { recursive: true });
      mkdirSync(scratch.join('inside'));
      execFileSync('mount', ['--bind', host, host]);
      execFileSync('mount', ['--make-rshared', host]);
      const path = scratch.join('inside/fast/pool');
      const late = `late: { ${section.replace('PATH', path)}, systemDisk: refuse, sickAfter: 1s }`;
      await using driver = await DriverProcess.start(scratch, {
        command: [...inContainer, scratch.path, ...driverCommand],
        config: `defaultPool: default\npools:\n  default: {}\n  ${late}\n`,
      });
      using client = driver.connect();
      const create = () =>
        client.controller.CreateVolume({
          name: 'v',
          capacity_range: { required_bytes: 64n << 20n },
          parameters: { pool: 'late' },
          volume_capabilities: [{ mount: {}, access_mode: { mode: 'SINGLE_NODE_WRITER' } }],
        });
      await assert.rejects(create(), /is on the system's disk \(.*\)\. Is its disk mounted\?.*systemDisk: allow/);
      assert.deepEqual(readdirSync(`${host}/fast`), []);

      execFileSync('truncate', ['--size=1G', scratch.join('disk.img')]);
      execFileSync('mkfs.xfs', ['-q', scratch.join('disk.img')]);
      execFileSync('mount', ['-o', 'loop', scratch.join('disk.img'), `${host}/fast`]);
      await driver.logged('the disk of a pool is well again: the pool is open');
      await create();
      assert.ok(existsSync(`${host}/fast/pool`));
    });
  }
});
