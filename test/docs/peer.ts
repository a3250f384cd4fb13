import assert from 'node:assert/strict';
import {
  chmodSync,
  closeSync,
  linkSync,
  mkdirSync,
  openSync,
  readFileSync,
  symlinkSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { join } from 'node:path';
import { installPrograms } from '../../deploy/image/program.ts';
import { runToEnd } from '../cluster/harness/command.ts';
import type { FleetNode } from '../cluster/harness/fleet/node.ts';
import type { Kubectl } from '../cluster/harness/kubectl.ts';

/** CAP_NET_RAW, permitted and effective (struct vfs_cap_data, linux/capability.h, version 2). */
const fileCapability = `0x0100000200200000${'00'.repeat(12)}`;
const holeBytes = 64 * 2 ** 20;

/** A volume of another driver, with whatever a copy could lose, and a StatefulSet `wiki` that uses it. */
export class Peer {
  readonly #directory: string;
  readonly #kubectl: Kubectl;
  readonly #node: FleetNode;

  constructor(directory: string, kubectl: Kubectl, node: FleetNode) {
    this.#node = node;
    this.#directory = directory;
    this.#kubectl = kubectl;
  }

  async make(): Promise<void> {
    await this.#fill();
    const text = readFileSync(join(import.meta.dirname, 'peer.yaml'), 'utf8');
    const input = text.replace('PEER_DIRECTORY', this.#directory).replace('NODE', this.#node.name);
    await this.#kubectl.run(['apply', '--validate=strict', '-f', '-'], { input });
    await this.#kubectl.run(['rollout', 'status', 'statefulset', 'wiki', '--timeout=120s']);
  }

  /** That the pod has a volume of ours now, in which all is as it was. */
  async compare(): Promise<void> {
    const field = (object: string, path: string) => this.#kubectl.run(['get', object, `-o=jsonpath={${path}}`]);
    const volume = await field('pvc/data-wiki-0', '.spec.volumeName');
    assert.equal(await field(`pv/${volume}`, '.spec.csi.driver'), 'holdfast.csi.dev');
    const pod = await field('pod/wiki-0', '.metadata.uid');
    const copy = this.#node.seen(`/var/lib/kubelet/pods/${pod}/volumes/kubernetes.io~csi/${volume}/mount`);
    assert.deepEqual(await describe(copy), await describe(this.#directory));
    const [kibibytes] = (await runToEnd('du', ['-k', join(copy, 'sparse')])).split('\t');
    assert.ok(Number(kibibytes) < holeBytes / 1024 / 8, `of a sparse file ${kibibytes} KiB are there`);
  }

  /** With what the guide has left. */
  async remove(): Promise<void> {
    await this.#kubectl.run(['delete', 'statefulset/wiki', '--timeout=120s']);
    await this.#kubectl.run(['delete', 'pvc/data-wiki-0', '--timeout=120s']);
    await this.#kubectl.run(['delete', 'pv/peer', 'storageclass/peer', '--timeout=120s']);
    await this.#kubectl.run(['wait', '--for=delete', 'pv', '-l', 'copy=default.data-wiki-0.new', '--timeout=120s']);
  }

  async #fill(): Promise<void> {
    installPrograms({ setfattr: 'attr', setfacl: 'acl' });
    const path = (name: string) => join(this.#directory, name);
    mkdirSync(path('sub'));
    chmodSync(path('sub'), 0o2750);
    writeFileSync(path('sub/file with a space'), 'text\n', { mode: 0o640 });
    linkSync(path('sub/file with a space'), path('hard-link'));
    symlinkSync('nowhere', path('symbolic-link'));
    const sparse = openSync(path('sparse'), 'w');
    writeSync(sparse, 'end', holeBytes);
    closeSync(sparse);
    writeFileSync(path('program'), '#!/bin/sh\n', { mode: 0o755 });
    await runToEnd('mkfifo', [path('fifo')]);
    await runToEnd('chown', ['--no-dereference', '1234:2345', path('sub'), path('hard-link'), path('symbolic-link')]);
    await runToEnd('setfattr', ['--name=user.color', '--value=blue', path('hard-link')]);
    await runToEnd('setfattr', ['--name=security.capability', `--value=${fileCapability}`, path('program')]);
    await runToEnd('setfacl', ['--modify=user:4321:r', path('sparse')]);
    await runToEnd('touch', ['--date=2001-02-03 04:05:06.789', path('program')]);
  }
}

/** Names with all that stat(2) tells but where they lie, checksums, extended attributes. */
async function describe(directory: string): Promise<string[]> {
  const entry = '%p %y %m %U:%G %n %l';
  const find = `find . -path ./lost+found -prune -o -type d -printf '${entry}\\n' -o -printf '${entry} %s %T@\\n'`;
  const sums = 'find . -path ./lost+found -prune -o -type f -exec sha256sum {} +';
  const script = `${find} | sed 's/^\\(\\. d [0-7]* [0-9:]*\\) .*/\\1/' | sort; ${sums} | sort; getfattr --recursive --physical --no-dereference --dump --match=- . | sort`;
  return (await runToEnd('bash', ['-eo', 'pipefail', '-c', script], { cwd: directory })).split('\n');
}
