import { readFile } from 'node:fs/promises';
import { errnoName, isErrno } from '../../../kernel/call/errno.ts';
import { refuseCoreDumps } from '../../../kernel/process/own-process.ts';
import { FailedPrecondition, InvalidArgument } from '../../../volume/errors.ts';
import type { VolumeHandle } from '../../../volume/handle.ts';
import type { VolumeRecord } from '../../../volume/record.ts';
import type { Secrets } from '../../../volume/secrets.ts';
import { type Keys, noKeyIn, parseKey, parseKeys } from './key.ts';

/** The use of a key: it decides which secret of the class comes with the call. */
export type KeyUse = 'create' | 'stage';

/**
 * The keys of a volume that a PersistentVolume names: they come with the call.
 * @throws InvalidArgument: what to do
 */
export function keysOfNamed(handle: VolumeHandle, secrets: Secrets | undefined): Keys {
  refuseCoreDumps();
  const given = parseKeys(secrets);
  if (given !== undefined) return given;
  const fields = secrets?.names() ?? [];
  if (fields.length > 0) throw noKeyIn(fields);
  throw new InvalidArgument(
    `volume ${handle} has encryption in its volumeAttributes, and no secret came: name one with its key in the PersistentVolume (nodeStageSecretRef).`,
  );
}

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
    record: Pick<VolumeRecord, 'encryption' | 'id'>,
    { secrets, use }: { readonly secrets: Secrets | undefined; readonly use: KeyUse },
  ): Promise<Keys> {
    refuseCoreDumps();
    const given = parseKeys(secrets);
    if (given !== undefined) return given;
    const fields = secrets?.names() ?? [];
    // A volume that was made with the pool's key opens with it, whatever else comes with the call. A new one would have
    // another key than was meant.
    if (fields.length > 0 && (use === 'create' || this.#keyFile === undefined)) throw noKeyIn(fields);
    if (this.#keyFile !== undefined) return { current: await this.#read(this.#keyFile), previous: undefined };
    throw this.#noSecret(record, use);
  }

  #noSecret({ encryption, id }: Pick<VolumeRecord, 'encryption' | 'id'>, use: KeyUse): InvalidArgument {
    const [wants, secret] =
      use === 'create' ? ['must be encrypted', 'provisioner'] : [`needs ${encryption?.keyId}`, 'node-stage'];
    return new InvalidArgument(
      `volume ${id} ${wants}, and no secret came: name one in its class (csi.storage.k8s.io/${secret}-secret-name and -namespace), or give pool ${this.#poolName} a key file.`,
    );
  }

  /** Read each time: it may be changed while the driver runs. */
  async #read(path: string): Promise<Keys['current']> {
    try {
      return parseKey(await readFile(path, 'utf8'), `The key in ${path}`);
    } catch (error) {
      if (error instanceof InvalidArgument) throw new FailedPrecondition(`pool ${this.#poolName}: ${error.message}`);
      const start = `pool ${this.#poolName}: its key file ${path} cannot be read`;
      if (isErrno(error, 'ENOENT', 'ENOTDIR')) {
        throw new FailedPrecondition(`${start}: the driver sees none there (in a container: is it mounted?).`);
      }
      if (!isErrno(error, 'EACCES', 'EISDIR')) throw error;
      throw new FailedPrecondition(`${start} (${errnoName(error)}): put a file there that the driver may read.`);
    }
  }
}
