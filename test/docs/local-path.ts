import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { runToEnd } from '../cluster/harness/command.ts';
import type { Kubectl } from '../cluster/harness/kubectl.ts';

/** As docs/migrate.md names them. */
const home = '/opt/local-path-provisioner';
const directory = join(home, 'pvc-1_shop_data-db-0');

/** A volume as local-path-provisioner makes them, and a StatefulSet `db` that notes in it each of its starts. */
export class LocalPath {
  readonly #kubectl: Kubectl;
  #inode = 0;
  #isOurs = false;

  constructor(kubectl: Kubectl) {
    this.#kubectl = kubectl;
  }

  /** Where it is to lie. On a node systemd has made the mount shared, as the driver's container wants it. */
  async prepare(): Promise<void> {
    if (existsSync(home)) throw new Error(`${home} is there already, and would be removed`);
    mkdirSync(home);
    this.#isOurs = true;
    await runToEnd('mount', ['--bind', home, home]);
    await runToEnd('mount', ['--make-rshared', home]);
  }

  async make(): Promise<void> {
    mkdirSync(directory);
    this.#inode = statSync(directory).ino;
    const input = readFileSync(join(import.meta.dirname, 'local-path.yaml'), 'utf8').replace('DIRECTORY', directory);
    await this.#kubectl.run(['apply', '--validate=strict', '-f', '-'], { input });
    await this.#kubectl.run(['-n', 'shop', 'rollout', 'status', 'statefulset', 'db', '--timeout=120s']);
  }

  /** That it is one of ours, with what its pods have written before and since. */
  async compareAdopted(): Promise<void> {
    assert.ok(!existsSync(directory));
    const driver = await this.#kubectl.run(['get', 'pv', 'adopted.shop.data-db-0', '-o=jsonpath={.spec.csi.driver}']);
    assert.equal(driver, 'holdfast.csi.dev');
    const starts = await this.#kubectl.run(['-n', 'shop', 'exec', 'db-0', '--', 'cat', '/data/starts']);
    assert.equal(starts, 'db-0\ndb-0\n');
  }

  compareReleased(): void {
    assert.equal(statSync(directory).ino, this.#inode);
    assert.equal(readFileSync(join(directory, 'starts'), 'utf8'), 'db-0\ndb-0\n');
  }

  async removeObjects(): Promise<void> {
    await this.#kubectl.run(['delete', 'namespace/shop', 'storageclass/local-path', '--timeout=120s']);
  }

  /** Of the machine, also after a failure. */
  async removeFiles(): Promise<void> {
    if (!this.#isOurs) return;
    await runToEnd('umount', [home]);
    rmSync(home, { recursive: true });
  }
}
