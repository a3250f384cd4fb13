import assert from 'node:assert/strict';
import type { GuestNode } from '../node/guest-node.ts';
import type { NodeSetup } from '../node/start-node.ts';

/** Where the programs are noted that are started as cryptsetup. */
export const started = '/run/cryptsetup-started';

/** A kind of pool that encrypted volumes live in, with what is different there. */
export interface EncryptedPlace {
  readonly setup: NodeSetup;
  /** Whether a volume in use can be taken a snapshot of. */
  readonly takesInUse: boolean;
  /** A command of the shell that prints the path of what the volume's ciphertext lies in, as long as it is detached. */
  readonly dataOf: (node: GuestNode, id: string) => string;
  /** One that undoes what that did. */
  readonly afterwards: (id: string) => string;
}

/** A program before cryptsetup that notes how it is started, and then becomes it. */
const counting = [
  `printf '%s\\n' '#!/bin/sh' '{ echo "$@"; env; } >>${started}' 'exec /usr/sbin/cryptsetup "$@"' >/usr/local/sbin/cryptsetup`,
  'chmod 755 /usr/local/sbin/cryptsetup',
].join(' && ');

/** The driver of such a node says all that it has to say. */
const common = {
  pools: ['default'],
  disks: [{ name: 'pool', sizeGiB: 3 }],
  environment: { HOLDFAST_LOG_LEVEL: 'trace' },
};

export const imagePlace: EncryptedPlace = {
  setup: { ...common, config: 'pools: { default: { device: /dev/vdb, sickAfter: 10m } }\n', prepare: counting },
  takesInUse: true,
  dataOf: ({ dataDirectory }, id) => `echo ${dataDirectory}/pools/default/volumes/${id}/data`,
  afterwards: () => 'true',
};

/** The name that LVM has for it. */
const lvOf = (id: string) => `$(lvm lvs --noheadings -o lv_full_name vg0 | grep -F ${id} | tr -d ' ')`;

export const groupPlace: EncryptedPlace = {
  setup: {
    ...common,
    config: 'pools: { default: { kind: lvm, volumeGroup: vg0, sickAfter: 10m } }\n',
    prepare: `${counting} && lvm vgcreate --yes vg0 /dev/vdb`,
  },
  takesInUse: false,
  dataOf: (_, id) =>
    `lv=${lvOf(id)} && lvm lvchange --activate y --ignoreactivationskip $lv && ` +
    'echo /dev/dm-$(lvm lvs --noheadings -o lv_kernel_minor $lv | tr -d " ")',
  afterwards: (id) => `lvm lvchange --activate n ${lvOf(id)}`,
};

/** Writes zeros over the beginning of a detached volume's ciphertext. */
export async function damage({ afterwards, dataOf }: EncryptedPlace, node: GuestNode, id: string): Promise<void> {
  const path = (await node.vm.run(dataOf(node, id))).trim();
  assert.match(path, /^\//);
  await node.vm.run(`dd if=/dev/zero of=${path} bs=1M count=1 conv=notrunc,fsync && ${afterwards(id)}`);
}
