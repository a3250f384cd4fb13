import { z } from 'zod';
import { hexDigits } from '../../../kernel/block/nvme.ts';
import { InvalidArgument } from '../../../volume/errors.ts';
import { parseInput } from '../../../volume/parse-input.ts';
import { type Portal, parsePortals } from '../../network-disk/portals.ts';
import type { VolumeContext } from '../../node-side.ts';

/** The namespace that a volume is, and how to reach it. */
export interface NvmeContext {
  readonly nqn: string;
  readonly portals: readonly Portal[];
  /** 32 hexadecimal digits. */
  readonly identity: { readonly kind: 'uuid' | 'nguid'; readonly digits: string };
  /** undefined: the node's. */
  readonly host: { readonly nqn: string; readonly id: string } | undefined;
  /** Options of the connection, by the kernel's names. */
  readonly options: Readonly<Record<string, string>>;
}

const usualPort = '4420';

/** The kernel's names of options, by ours. */
const optionNames = {
  ctrlLossTmo: 'ctrl_loss_tmo',
  reconnectDelay: 'reconnect_delay',
  keepAliveTmo: 'keep_alive_tmo',
  nrIoQueues: 'nr_io_queues',
} as const;

/** Names of csi-driver-nvmf and democratic-csi. */
const otherNames = ['targetTrAddr', 'targetTrPort', 'targetTrType', 'transport', 'deviceUUID'] as const;

export const nvmeKeys: readonly string[] = [
  ...['nqn', 'portals', 'uuid', 'nguid', 'hostNqn', 'hostId'],
  ...Object.keys(optionNames),
  ...otherNames,
];

/** A name of NVMe has at most 223 bytes, and a comma would begin another option. */
const name = z.string().regex(/^[!-+\--~]{1,223}$/, { error: 'must be 1 to 223 visible characters without a comma' });
const seconds = z.string().regex(/^(-1|[0-9]{1,6})$/, { error: 'must be a whole number of seconds, or -1 for ever' });
const count = z.string().regex(/^[1-9][0-9]{0,5}$/, { error: 'must be a whole number greater than 0' });
const identity = (key: string) =>
  z.string().refine((text) => hexDigits(text) !== undefined, {
    error: `${key}: must have 32 hexadecimal digits, as /sys/block/nvme…/${key} shows them`,
  });

const schema = z.strictObject({
  nqn: name,
  portals: z.string().optional(),
  targetTrAddr: z.string().optional(),
  targetTrPort: count.optional(),
  targetTrType: z.literal('tcp', { error: 'must be tcp' }).optional(),
  transport: z.string().optional(),
  uuid: identity('uuid').optional(),
  deviceUUID: identity('deviceUUID').optional(),
  nguid: identity('nguid').optional(),
  hostNqn: name.optional(),
  hostId: z.uuid({ error: 'must be a UUID' }).optional(),
  ctrlLossTmo: seconds.optional(),
  reconnectDelay: count.optional(),
  keepAliveTmo: count.optional(),
  nrIoQueues: count.optional(),
});

/** The kernel gives up a server that is away for this long: then its devices are gone, and their filesystems fail. */
const usualOptions = { ctrl_loss_tmo: '1800', reconnect_delay: '10', keep_alive_tmo: '5' };

/** @throws InvalidArgument that names the key */
export function parseNvmeContext(context: VolumeContext): NvmeContext {
  const parsed = parseInput(schema, { ...context });
  if ('mistakes' in parsed) throw mistake(parsed.mistakes.join('; '));
  const { deviceUUID, hostId, hostNqn, nguid, nqn, uuid = deviceUUID, ...rest } = parsed.data;
  if (uuid === undefined && nguid === undefined) {
    throw mistake('uuid or nguid is missing: names of devices change, so the namespace must be known by one of them');
  }
  if ((hostNqn === undefined) !== (hostId === undefined)) {
    throw mistake('hostNqn and hostId belong together: give both, or none for those of the node');
  }
  const options: Record<string, string> = { ...usualOptions };
  for (const [ours, kernels] of Object.entries(optionNames)) {
    const value = context[ours];
    if (value !== undefined) options[kernels] = value;
  }
  const digits = hexDigits(uuid ?? nguid) ?? '';
  return {
    nqn,
    portals: portalsOf(rest),
    identity: { kind: uuid === undefined ? 'nguid' : 'uuid', digits },
    host: hostNqn === undefined || hostId === undefined ? undefined : { nqn: hostNqn, id: hostId.toLowerCase() },
    options,
  };
}

type GivenPortals = Partial<Pick<z.infer<typeof schema>, 'portals' | 'targetTrAddr' | 'targetTrPort' | 'transport'>>;

function portalsOf({ portals, targetTrAddr, targetTrPort = usualPort, transport }: GivenPortals): readonly Portal[] {
  const given = [portals, targetTrAddr, transport].filter((each) => each !== undefined);
  const [text] = given;
  if (text === undefined || given.length > 1) {
    throw mistake('portals is missing: name the addresses of the target once, such as 10.0.0.1:4420,10.0.0.2:4420');
  }
  const words = text.split(',').map((word) => word.trim().replace(/^tcp:\/\//, ''));
  const found = parsePortals(words, targetTrAddr === undefined ? usualPort : targetTrPort);
  if (typeof found === 'string') throw mistake(`portals: ${found}`);
  return found;
}

function mistake(words: string): InvalidArgument {
  return new InvalidArgument(`volumeAttributes of an nvme-tcp volume: ${words.replace(/\.$/, '')}.`);
}
