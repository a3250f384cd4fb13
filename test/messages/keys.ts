import { randomBytes } from 'node:crypto';
import { ClaimedVolume, type Stage } from './claimed-volume.ts';

const key = randomBytes(32).toString('base64');
const encrypted = { encryption: 'luks2' };

/** Classes and Secrets with which no encrypted volume can be made. What needs the kernel's part, test/vm/luks provokes. */
export const keys: Readonly<Record<string, (stage: Stage) => Promise<unknown>>> = {
  'the class names no secret': (stage) => new ClaimedVolume(stage, encrypted).create(),
  "the pool's key file is not there": (stage) => new ClaimedVolume(stage, { ...encrypted, pool: 'keyed' }).create(),
  'the secret has other fields': createWith({ username: 'admin', password: 'correct horse battery' }),
  'the secret has other fields, and the pool a key file': (stage) =>
    new ClaimedVolume(stage, { ...encrypted, pool: 'keyed' }).create({ secrets: { password: 'correct horse' } }),
  'the key is none': createWith({ key: 'a passphrase' }),
  'the passphrase is short': createWith({ passphrase: 'short' }),
  'the passphrase has a line break': createWith({ passphrase: 'correct horse battery\n' }),
  'a key and a passphrase': createWith({ key, passphrase: 'correct horse battery' }),
  'the previous key alone': createWith({ previousKey: key }),
  'the pool cannot encrypt': (stage) =>
    new ClaimedVolume(stage, { ...encrypted, pool: 'directories' }).create({
      volume_capabilities: [{ mount: {}, access_mode: { mode: 'SINGLE_NODE_WRITER' } }],
    }),
  'the source is not encrypted': async (stage) => {
    const source = await new ClaimedVolume(stage).create();
    const volume_content_source = { volume: { volume_id: source.id } };
    const clone = new ClaimedVolume(stage, encrypted).create({ volume_content_source, secrets: { key } });
    return clone.finally(() => source.remove());
  },
};

function createWith(secrets: Readonly<Record<string, string>>): (stage: Stage) => Promise<unknown> {
  return (stage) => new ClaimedVolume(stage, encrypted).create({ secrets });
}
