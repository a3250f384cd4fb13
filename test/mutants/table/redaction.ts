import type { Mutant } from '../mutant.ts';

/** What must not be seen. */
export const redactionMutants: readonly Mutant[] = [
  {
    name: 'fields that the contract calls secret are not logged',
    file: 'src/csi/redact.ts',
    text: "field.isSecret || field.name === 'mount_flags'",
    replacement: "field.name === 'mount_flags'",
    killer: 'src/csi/redact.test.ts',
  },
  {
    name: 'mount flags are not logged',
    file: 'src/csi/redact.ts',
    text: "field.isSecret || field.name === 'mount_flags'",
    replacement: 'field.isSecret',
    killer: 'src/csi/redact.test.ts',
  },
  {
    name: "a pod's tokens are not logged",
    file: 'src/csi/redact.ts',
    text: "key.endsWith('serviceAccount.tokens') || ",
    replacement: '',
    killer: 'src/csi/redact.test.ts',
  },
  {
    name: 'what the kernel quotes of mount options is not shown',
    file: 'src/kernel/mount/mount-words.ts',
    text: 'strike(index + 1, quoted.length - 2)',
    replacement: 'strike(index, 0 * quoted.length)',
    killer: 'src/kernel/mount/mount-words.test.ts',
  },
  {
    name: 'mount options are not shown',
    file: 'src/kernel/mount/mount-words.ts',
    text: 'strike(at, option.length);',
    replacement: 'strike(at, 0);',
    killer: 'src/kernel/mount/mount-words.test.ts',
  },
  {
    name: 'parts of mount options are not shown',
    file: 'src/kernel/mount/mount-words.ts',
    text: 'given.some((option) => option.includes(word))',
    replacement: 'given.some((option) => option.startsWith(word, Infinity))',
    killer: 'src/kernel/mount/mount-words.test.ts',
  },
  {
    name: 'numbers are not shown where an option has one',
    file: 'src/kernel/mount/mount-words.ts',
    text: '(hasDigits && ',
    replacement: "(hasDigits && word === '' && ",
    killer: 'src/kernel/mount/mount-words.test.ts',
  },
  {
    name: 'mount flags are kept as a keyed hash',
    file: 'src/node/notes.ts',
    text: "createHmac('sha256', this.#bootId).update(text).digest('base64url')",
    replacement: 'text',
    killer: 'src/node/notes.test.ts',
  },
];
