import { z } from 'zod';
import type { VolumeHandle } from '../../../volume/handle.ts';
import { parseInput } from '../../../volume/parse-input.ts';
import { Secrets } from '../../../volume/secrets.ts';
import type { Condition } from '../../pool.ts';
import type { Answer } from './answer.ts';
import type { Passed, ProgramCalls } from './calls.ts';
import type { ExecContext } from './context.ts';

/*
 * The arguments of FlexVolume drivers, as the kubelet and the attach-detach controller passed them
 * (kubernetes/community, contributors/devel/sig-storage/flexvolume.md).
 */

interface FlexVolume {
  readonly handle: VolumeHandle;
  readonly context: ExecContext;
  /** Directory of the mounts of all volumes. */
  readonly mountsDirectory: string;
}

/**
 * The JSON of options. What the kubelet called the PersistentVolume's name is the handle here.
 * @param secrets only for mount
 */
function flexOptions({ context, handle, mountsDirectory }: FlexVolume, secrets?: Secrets): string {
  const own: Record<string, string> = {
    'kubernetes.io/fsType': context.fsType ?? '',
    'kubernetes.io/readwrite': context.readOnly ? 'ro' : 'rw',
    'kubernetes.io/pvOrVolumeName': handle,
    'kubernetes.io/mountsDir': mountsDirectory,
  };
  for (const name of secrets?.names() ?? []) {
    own[`kubernetes.io/secret/${name}`] = Buffer.from(secrets?.get(name) ?? '').toString('base64');
  }
  return JSON.stringify({ ...own, ...context.options });
}

/** A volume, and the directories in which a program shows it. */
export interface ExecVolume extends FlexVolume {
  readonly nodeName: string;
  /** For mountdevice of FlexVolume. */
  readonly deviceDirectory: string;
  /** The directory that pods get. */
  readonly mountDirectory: string;
}

/** The calls for one volume on a node, in one of the protocols. undefined: the program has no such call. */
export interface Verbs {
  /** Refuses a program that cannot be used at all. Changes nothing. */
  begin(): Promise<void>;
  /** Attaches it here. @returns the path of its device; undefined: it is none */
  attach(volume: ExecVolume, secrets: Secrets | undefined): Promise<string | undefined>;
  mountDevice(volume: ExecVolume, device: string): Promise<Answer | undefined>;
  mount(volume: ExecVolume, device: string | undefined, secrets: Secrets | undefined): Promise<Answer | undefined>;
  unmount(volume: ExecVolume): Promise<Answer | undefined>;
  unmountDevice(volume: ExecVolume): Promise<Answer | undefined>;
  /**
   * @param device as it was attached; undefined: that is not known
   * @param isForeign tells a device that is in use, but not for this volume: it is left alone
   */
  detach(volume: ExecVolume, device: string | undefined, isForeign: (path: string) => Promise<boolean>): Promise<void>;
  /** For a device that is larger now. @returns undefined: it cannot */
  grow(volume: ExecVolume, device: string | undefined, sizes: Sizes): Promise<Answer | undefined>;
  growFilesystem(volume: ExecVolume, device: string | undefined, sizes: Sizes): Promise<Answer | undefined>;
  /** The program's own look at the volume. @returns undefined: it does not look */
  condition(volume: ExecVolume, device: string | undefined): Promise<Condition | undefined>;
}

export interface Sizes {
  readonly newBytes: bigint;
  readonly oldBytes: bigint;
}

export function verbsOf(calls: ProgramCalls): Verbs {
  return calls.program.protocol === 'json' ? new JsonVerbs(calls) : new FlexVerbs(calls);
}

const conditionAnswer = z.looseObject({ abnormal: z.boolean() });

/** Requests on standard input: stage, unstage, resize and condition. */
class JsonVerbs implements Verbs {
  readonly #calls: ProgramCalls;

  constructor(calls: ProgramCalls) {
    this.#calls = calls;
  }

  begin(): Promise<void> {
    return this.#calls.requireTrusted();
  }

  async attach(volume: ExecVolume, secrets: Secrets | undefined): Promise<string | undefined> {
    if (!this.#hasDevice) return undefined;
    const answer = await this.#call('stage', volume, { secrets });
    if (answer === undefined) throw this.#calls.wrong('has no stage: it must have stage and unstage.');
    return answer.device;
  }

  async mountDevice(): Promise<undefined> {}

  mount(volume: ExecVolume, _device: string | undefined, secrets: Secrets | undefined): Promise<Answer | undefined> {
    return this.#call('stage', volume, { directory: volume.mountDirectory, secrets });
  }

  unmount(volume: ExecVolume): Promise<Answer | undefined> {
    return this.#call('unstage', volume, { directory: volume.mountDirectory });
  }

  async unmountDevice(): Promise<undefined> {}

  async detach(volume: ExecVolume, device: string | undefined): Promise<void> {
    if (this.#hasDevice) await this.#call('unstage', volume, device === undefined ? {} : { device });
  }

  grow(volume: ExecVolume, device: string | undefined, sizes: Sizes): Promise<Answer | undefined> {
    const where = device === undefined ? { directory: volume.mountDirectory } : { device };
    return this.#call('resize', volume, { ...where, sizeBytes: `${sizes.newBytes}` });
  }

  async growFilesystem(): Promise<undefined> {}

  async condition(volume: ExecVolume, device: string | undefined): Promise<Condition | undefined> {
    const where = device === undefined ? { directory: volume.mountDirectory } : { device };
    const answer = await this.#call('condition', volume, where);
    if (answer === undefined) return undefined;
    const parsed = parseInput(conditionAnswer, answer.fields);
    if ('mistakes' in parsed) throw this.#calls.wrong('answers condition without abnormal: true or false.');
    return { abnormal: parsed.data.abnormal, message: answer.message };
  }

  get #hasDevice(): boolean {
    return this.#calls.program.presents === 'device';
  }

  #call(verb: string, { context, handle, nodeName }: ExecVolume, more: Record<string, unknown>) {
    const { secrets, ...rest } = more;
    const { fsType, options, readOnly } = context;
    return this.#calls.ask(
      verb,
      { volume: handle, node: nodeName, options, readOnly, ...(fsType === undefined ? {} : { fsType }), ...rest },
      { secrets: secrets instanceof Secrets ? secrets : undefined },
    );
  }
}

/** The calls of FlexVolume: everything in arguments. */
class FlexVerbs implements Verbs {
  readonly #calls: ProgramCalls;
  #needsAttach: boolean | undefined;

  constructor(calls: ProgramCalls) {
    this.#calls = calls;
  }

  async begin(): Promise<void> {
    await this.#attaches();
  }

  async attach(volume: ExecVolume): Promise<string | undefined> {
    if (!(await this.#attaches())) return undefined;
    const options = flexOptions(volume);
    const attached = await this.#call('attach', [options, volume.nodeName]);
    const device = attached?.device;
    const waited = await this.#call('waitforattach', [device ?? '', options]);
    return waited?.device ?? device;
  }

  mountDevice(volume: ExecVolume, device: string): Promise<Answer | undefined> {
    return this.#call('mountdevice', [volume.deviceDirectory, device, flexOptions(volume)]);
  }

  async mount(
    volume: ExecVolume,
    _device: string | undefined,
    secrets: Secrets | undefined,
  ): Promise<Answer | undefined> {
    const hasSecrets = secrets !== undefined && secrets.names().length > 0;
    if (hasSecrets && !this.#calls.program.secretsInArguments) {
      throw this.#calls.wrong(
        'would get secrets in its arguments, which every user of the node can read: allow it by secretsInArguments: true, or use the protocol json.',
      );
    }
    const options = flexOptions(volume, secrets);
    return await this.#calls.call('mount', { args: [volume.mountDirectory, options], secrets });
  }

  unmount({ mountDirectory }: ExecVolume): Promise<Answer | undefined> {
    return this.#call('unmount', [mountDirectory]);
  }

  unmountDevice({ deviceDirectory }: ExecVolume): Promise<Answer | undefined> {
    return this.#call('unmountdevice', [deviceDirectory]);
  }

  async detach(
    volume: ExecVolume,
    device: string | undefined,
    isForeign: (path: string) => Promise<boolean>,
  ): Promise<void> {
    if (!(await this.#attaches())) return;
    const { detachBy } = this.#calls.program;
    let attached = device;
    if (attached === undefined) {
      // Asked first: attach may take the volume from another node that has it by now.
      if (await this.#isProvenDetached(volume)) return;
      // After a crash only the program knows what it has attached: asked again, it says so.
      if (detachBy === 'device') attached = await this.attach(volume);
      if (attached !== undefined && (await isForeign(attached))) return;
    }
    try {
      await this.#call('detach', [detachBy === 'name' ? volume.handle : (attached ?? ''), volume.nodeName]);
    } catch (error) {
      // It may fail since there is nothing to detach any more: many drivers cannot be asked twice.
      if (!(await this.#isProvenDetached(volume))) throw error;
    }
  }

  /**
   * Only the program's own word is a proof. All else (it fails, it has no such call) is none: a volume that Kubernetes
   * believes to be detached is given to another node.
   */
  async #isProvenDetached(volume: ExecVolume): Promise<boolean> {
    const answer = await this.#call('isattached', [flexOptions(volume), volume.nodeName]).catch(() => undefined);
    return answer?.attached === false;
  }

  /** The kubelet gave it the directory in which the device is mounted. */
  grow(volume: ExecVolume, device: string | undefined, sizes: Sizes): Promise<Answer | undefined> {
    const isMounted = this.#calls.program.presents === 'directory';
    const where = isMounted ? volume.deviceDirectory : (device ?? '');
    return this.#call('expandvolume', [flexOptions(volume), where, ...inWords(sizes)]);
  }

  growFilesystem(volume: ExecVolume, device: string | undefined, sizes: Sizes): Promise<Answer | undefined> {
    const where = device === undefined ? volume.mountDirectory : volume.deviceDirectory;
    return this.#call('expandfs', [flexOptions(volume), device ?? '', where, ...inWords(sizes)]);
  }

  async condition(): Promise<undefined> {}

  /** Asked once for each stage and unstage: the program may be a newer one by then. */
  async #attaches(): Promise<boolean> {
    if (this.#needsAttach === undefined) {
      const answer = await this.#call('init', []);
      if (answer === undefined) throw this.#calls.wrong('says Not supported to init, which every driver must have.');
      this.#needsAttach = answer.capabilities['attach'] ?? true;
    }
    return this.#needsAttach;
  }

  #call(verb: string, args: Passed['args'] = []): Promise<Answer | undefined> {
    return this.#calls.call(verb, { args });
  }
}

function inWords({ newBytes, oldBytes }: Sizes): string[] {
  return [`${newBytes}`, `${oldBytes}`];
}
