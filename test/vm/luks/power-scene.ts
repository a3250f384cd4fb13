import { lvmScene } from '../lvm/power-scene.ts';
import type { PowerScene } from '../power/scene.ts';

/** On the node's own disk, with the driver's data. */
const keyFile = '/data/pool.key';
const { setup, users } = lvmScene;

/** A volume group on two disks, of which every volume is encrypted. */
export const encryptedScene: PowerScene = {
  ...lvmScene,
  setup: {
    ...setup,
    config: setup.config.replace('kind: lvm,', `kind: lvm, encryption: { keyFile: ${keyFile} },`),
    prepare: `head -c 32 /dev/urandom | base64 >${keyFile} && sync && ${setup.prepare}`,
  },
  users: users.map((user) => ({ ...user, encryption: 'luks2' as const })),
};
