import { readFile } from 'node:fs/promises';
import { isErrno } from '../../../kernel/call/errno.ts';
import { refuseCoreDumps } from '../../../kernel/process/core-dump.ts';
import { FailedPrecondition, InvalidArgument } from '../../../volume/errors.ts';
import type { VolumeRecord } from '../../../volume/record.ts';
import type { Secrets } from '../../../volume/secrets.ts';
import { type Keys, parseKey, parseKeys } from './key.ts';

/** Where the keys of a pool's volumes come from: from each call's secrets, or else from the pool's own file. */
export class KeyRing {
  readonly #poolName: string;
  readonly #keyFile: string | undefined;

  constructor(poolName: string, keyFile: string | undefined) {
    this.#poolName = poolName;
    this.#keyFile = keyFile;
  }

  /** @throws InvalidArgument, FailedPrecondition: what to do */
  async keysOf(
    { encryption, id }: Pick<VolumeRecord, 'encryption' | 'id'>,
    secrets: Secrets | undefined,
  ): Promise<Keys> {
    refuseCoreDumps();
    const given = parseKeys(secrets);
    if (given !== undefined) return given;
    if (this.#keyFile !== undefined) return { current: await this.#read(this.#keyFile), previous: undefined };
    throw new InvalidArgument(
      `volume ${id} needs ${encryption?.keyId}, and no secret with key or passphrase came with the call: name one in its StorageClass, or give pool ${this.#poolName} a key file.`,
    );
  }

  /** Read each time: it may be changed while the driver runs. */
  async #read(path: string): Promise<Keys['current']> {
    try {
      return parseKey(await readFile(path, 'utf8'), `The key in ${path}`);
    } catch (error) {
      if (error instanceof InvalidArgument) throw new FailedPrecondition(`pool ${this.#poolName}: ${error.message}`);
      if (!isErrno(error, 'ENOENT', 'EACCES', 'EISDIR')) throw error;
      throw new FailedPrecondition(`pool ${this.#poolName}: its key file ${path} cannot be read; put it there.`);
    }
  }
}
