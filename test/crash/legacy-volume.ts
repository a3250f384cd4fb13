import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { TestVolume } from './test-volume.ts';

const witness = 'witness';

/** A volume that was a directory beside the pool before, as a hostPath volume is. */
export class LegacyVolume extends TestVolume {
  #inode: bigint | undefined;

  /** The directory, as its workload has left it. */
  make(): void {
    mkdirSync(join(this.path, 'sub'), { recursive: true });
    writeFileSync(join(this.path, 'sub', witness), this.name, { flush: true });
    this.#inode = statSync(this.path, { bigint: true }).ino;
  }

  /** Whoever is told that it is adopted already is told so by success. */
  override async create(): Promise<void> {
    const claim = { namespace: 'shop', claim: this.name };
    const { id } = await this.node.admin.adopt({ ...claim, path: this.path, pool: this.pool.name, name: this.name });
    assert.equal(id, this.id);
  }

  /** A release that was cut short may have come to its end. */
  async takeBack(): Promise<void> {
    if (!(await this.exists())) return this.checkThere();
    const { path } = await this.node.admin.release(this.id, undefined);
    assert.equal(path, this.path);
  }

  checkGone(): void {
    assert.ok(!existsSync(this.path), `${this.path} is still there`);
    this.#check(this.#dataPath);
  }

  checkThere(): void {
    this.#check(this.path);
    assert.ok(!existsSync(this.#dataPath), 'it is there twice');
  }

  get path(): string {
    return join(dirname(this.pool.root), `legacy-${this.name}`);
  }

  get #dataPath(): string {
    return join(this.pool.root, 'volumes', this.id, 'data');
  }

  #check(path: string): void {
    assert.equal(statSync(path, { bigint: true }).ino, this.#inode);
    assert.equal(readFileSync(join(path, 'sub', witness), 'utf8'), this.name);
  }
}
