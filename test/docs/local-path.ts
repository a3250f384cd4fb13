import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import type { FleetNode } from '../cluster/harness/fleet/node.ts';
import type { Kubectl } from '../cluster/harness/kubectl.ts';

/** As docs/migrate.md names it. */
export const localPathDirectory = '/opt/local-path-provisioner';
const directory = join(localPathDirectory, 'pvc-1_shop_data-db-0');

/** A volume as local-path-provisioner makes them, and a StatefulSet `db` that notes in it each of its starts. */
export class LocalPath {
  readonly #kubectl: Kubectl;
  /** As it is seen from outside of the node. */
  #directory = '';
  #inode = 0;

  constructor(kubectl: Kubectl) {
    this.#kubectl = kubectl;
  }

  async make(node: FleetNode): Promise<void> {
    this.#directory = node.seen(directory);
    mkdirSync(this.#directory);
    this.#inode = statSync(this.#directory).ino;
    const text = readFileSync(join(import.meta.dirname, 'local-path.yaml'), 'utf8');
    const input = text.replace('DIRECTORY', directory).replace('NODE', node.name);
    await this.#kubectl.run(['apply', '--validate=strict', '-f', '-'], { input });
    await this.#kubectl.run(['-n', 'shop', 'rollout', 'status', 'statefulset', 'db', '--timeout=120s']);
  }

  /** That it is one of ours, with what its pods have written before and since. */
  async compareAdopted(): Promise<void> {
    assert.ok(!existsSync(this.#directory));
    const driver = await this.#kubectl.run(['get', 'pv', 'adopted.shop.data-db-0', '-o=jsonpath={.spec.csi.driver}']);
    assert.equal(driver, 'holdfast.csi.dev');
    const starts = await this.#kubectl.run(['-n', 'shop', 'exec', 'db-0', '--', 'cat', '/data/starts']);
    assert.equal(starts, 'db-0\ndb-0\n');
  }

  compareReleased(): void {
    assert.equal(statSync(this.#directory).ino, this.#inode);
    assert.equal(readFileSync(join(this.#directory, 'starts'), 'utf8'), 'db-0\ndb-0\n');
  }

  async removeObjects(): Promise<void> {
    await this.#kubectl.run(['delete', 'namespace/shop', 'storageclass/local-path', '--timeout=120s']);
  }
}
