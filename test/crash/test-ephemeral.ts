import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { chmodSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { CrashNode } from './crash-node.ts';
import type { CrashPool } from './crash-pool.ts';
import { mountsBelow } from './kernel-sight.ts';

const text = 'in the repository\n';

/** A volume that lives no longer than its pod, filled from a repository, as the kubelet sees it. */
export class TestEphemeral {
  readonly #node: CrashNode;
  readonly #handle: string;
  readonly targetPath: string;
  readonly #repository: string;
  readonly #pool: CrashPool;

  constructor(node: CrashNode, name: string, pool = node.defaultPool) {
    this.#node = node;
    this.#pool = pool;
    this.#handle = `csi-${name}`;
    this.targetPath = join(node.kubeletDirectory, 'pods', name, 'inline');
    this.#repository = node.scratch.join('repository');
    mkdirSync(join(this.targetPath, '..'), { recursive: true });
    if (existsSync(this.#repository)) return;
    // Git runs as nobody in particular, who must get to it.
    chmodSync(node.scratch.path, 0o755);
    makeRepository(this.#repository);
  }

  async publish(): Promise<void> {
    await this.#node.client.node.NodePublishVolume({
      volume_id: this.#handle,
      target_path: this.targetPath,
      volume_capability: { mount: { fs_type: 'ext4' }, access_mode: { mode: 'SINGLE_NODE_WRITER' } },
      volume_context: {
        'csi.storage.k8s.io/ephemeral': 'true',
        size: '32Mi',
        pool: this.#pool.name,
        gitRepository: this.#repository,
      },
    });
  }

  async unpublish(): Promise<void> {
    await this.#node.client.node.NodeUnpublishVolume({ volume_id: this.#handle, target_path: this.targetPath });
  }

  /** Asserts that it is there, whole, and can be written to. */
  check(): void {
    assert.equal(mountsBelow(this.targetPath).length, 1);
    assert.equal(readFileSync(join(this.targetPath, 'file'), 'utf8'), text);
    writeFileSync(join(this.targetPath, 'data'), 'x');
  }

  /** Asserts that nothing of it is there. */
  checkGone(): void {
    assert.ok(!existsSync(this.targetPath), 'the target is still there');
  }
}

function makeRepository(path: string): void {
  mkdirSync(path);
  const git = (...args: string[]) =>
    execFileSync('git', ['-c', 'user.name=x', '-c', 'user.email=x', ...args], { cwd: path });
  git('init', '--quiet');
  writeFileSync(join(path, 'file'), text);
  git('add', 'file');
  git('commit', '--quiet', '--message=x');
}
