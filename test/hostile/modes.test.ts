import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { chmodSync, lstatSync, mkdirSync, readdirSync, readFileSync, type Stats, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { buildDriver, type DriverCommand } from '../crash/bundle.ts';
import type { CrashNode } from '../crash/crash-node.ts';
import { Fixture, undoAll } from './fixture.ts';
import { HostileNode } from './hostile-node.ts';

/*
 * What the driver makes is for root alone, whatever umask it is started with; what it puts into a volume is for the pod.
 */

let command: DriverCommand;
before(async () => {
  command = await buildDriver();
});
after(() => command[Symbol.dispose]());

/** The same driver, started by somebody who has set this umask. */
function withUmask(umask: string): DriverCommand {
  return { ...command, plain: ['sh', '-c', `umask ${umask}; exec "$@"`, 'sh', ...command.plain] };
}

describe('owners and modes', () => {
  for (const umask of ['000', '022', '777']) {
    test(`of a driver that was started with umask ${umask}`, async () => {
      await using hostile = await HostileNode.open(withUmask(umask), { keepsTrash: true });
      const { node } = hostile;
      assert.match(readFileSync(`/proc/${node.pid}/status`, 'utf8'), /^Umask:\t0077$/m);
      const fixture = new Fixture(hostile);
      await fixture.build();
      const inline = await publishInline(node);

      // The root of the pool's own filesystem is as mkfs makes it, and nobody gets to it: its parents are closed.
      const ours = () => treeOf(node.dataDirectory).filter((path) => path !== node.defaultPool.root);
      const made = [node.socketPath, ...ours(), node.defaultPool.location];
      const sockets = made.filter((path) => lstatSync(path).isSocket());
      assert.equal(sockets.length, 2, sockets.join());
      for (const path of made) assertForRootAlone(path);
      // A target under its mount, and a staged device's file, are seen by nobody. What is in the volume is for the pod.
      for (const [name, mode] of [
        ['', 0o777],
        ['file', 0o644],
        ['program', 0o755],
        ['directory', 0o755],
      ] as const) {
        assert.equal(lstatSync(join(inline, name)).mode & 0o7777, mode, name);
      }
      await undoAll(node);
      for (const path of ours()) assertForRootAlone(path);
      await hostile.stop();
    });
  }
});

function assertForRootAlone(path: string): void {
  const status = lstatSync(path);
  assert.deepEqual([status.uid, status.gid], [0, 0], path);
  assert.equal((status.mode & 0o777).toString(8), allowedMode(status).toString(8), path);
}

function allowedMode(status: Stats): number {
  return status.isDirectory() ? 0o700 : 0o600;
}

/** The directory itself and all in it. */
function treeOf(path: string): string[] {
  const entries = readdirSync(path, { withFileTypes: true });
  return [
    path,
    ...entries.flatMap((entry) => (entry.isDirectory() ? treeOf : (one: string) => [one])(join(path, entry.name))),
  ];
}

async function publishInline(node: CrashNode): Promise<string> {
  const repository = node.scratch.join('repository');
  mkdirSync(join(repository, 'directory'), { recursive: true });
  // Git runs as nobody in particular, who must get to it.
  chmodSync(node.scratch.path, 0o755);
  const git = (...args: string[]) =>
    execFileSync('git', ['-c', 'user.name=x', '-c', 'user.email=x', ...args], { cwd: repository });
  git('init', '--quiet');
  for (const name of ['file', 'program', 'directory/file']) writeFileSync(join(repository, name), 'x');
  chmodSync(join(repository, 'program'), 0o6755);
  git('add', '.');
  git('commit', '--quiet', '--message=x');
  const target_path = join(node.kubeletDirectory, 'pods', 'git', 'volume');
  mkdirSync(dirname(target_path));
  await node.client.node.NodePublishVolume({
    volume_id: 'csi-git',
    target_path,
    volume_capability: { mount: {}, access_mode: { mode: 'SINGLE_NODE_WRITER' } },
    volume_context: { 'csi.storage.k8s.io/ephemeral': 'true', size: '32Mi', gitRepository: repository },
  });
  return target_path;
}
