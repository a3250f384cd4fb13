import type { Mutant } from '../mutant.ts';

const killer = 'src/config/config.test.ts';
/** The property tests of the same file take long. */
const only = 'refused|cannot be the CSI|O0[12]';
const file = { file: 'src/config/file.ts', killer, only } as const;
const locations = { file: 'src/config/locations.ts', killer, only } as const;
const image = { file: 'src/pool/kinds/image/config.ts', killer, only } as const;
const pool = { file: 'src/pool/settings.ts', killer, only } as const;
const section = { file: 'src/settings/section.ts', killer, only } as const;
const values = { file: 'src/settings/values.ts', killer, only } as const;
const config = { file: 'src/config/config.ts', killer, only } as const;
const environment = { file: 'src/config/environment.ts', killer, only } as const;

/** What the configuration refuses, before anything is done to a disk. */
export const configurationMutants: readonly Mutant[] = [
  {
    name: 'a pool in a directory of the system is refused',
    ...locations,
    text: 'if (tree !== undefined) return',
    replacement: "if (tree === '') return",
  },
  {
    name: 'a pool in a directory of many is refused',
    ...locations,
    text: 'if (sharedDirectories.includes(path)) return',
    replacement: "if (path === '') return",
  },
  {
    name: "a pool in the driver's or the kubelet's own directory is refused",
    ...locations,
    text: 'if (isAtOrIn(directory, path)) return',
    replacement: "if (directory === '') return",
  },
  {
    name: "a pool among the driver's notes is refused",
    ...locations,
    text: 'return isAtOrIn(path, notes) ? ',
    replacement: "return path === '' ? ",
  },
  {
    name: 'a directory or file among the devices is refused',
    ...locations,
    text: "if (type !== 'device' && isAtOrIn(path, '/dev')) return",
    replacement: "if (type !== 'device' && path === '') return",
  },
  {
    name: 'two pools in one place are refused',
    ...locations,
    text: '(isAtOrIn(path, each.path) || isAtOrIn(each.path, path))',
    replacement: "(each.path === '' && path === '')",
  },
  {
    name: 'a pool in another one is refused',
    ...locations,
    text: '(isAtOrIn(path, each.path) || isAtOrIn(each.path, path))',
    replacement: 'path === each.path',
  },
  {
    name: "another pool's automatic location is refused",
    ...image,
    text: "return [root, { type: 'file', path: automaticFile(dataDirectory, name), key: undefined }];",
    replacement: 'return [];',
  },
  {
    name: 'two locations for one pool are refused',
    ...image,
    text: 'if (named.length > 1) section',
    replacement: 'if (named.length > 9) section',
  },
  {
    name: 'a size for a directory or a disk is refused',
    ...image,
    text: "if (section.has('size') && (section.has('directory') || section.has('device') || section.has('match'))) {",
    replacement: "if (section.has('size') && section.has('nothing')) {",
  },
  {
    name: 'a reserve of all is refused',
    ...image,
    text: 'reserveBytes >= sizeBytes',
    replacement: 'reserveBytes < 0n',
  },
  {
    name: 'a pool name that is no name is refused',
    ...file,
    text: '  if (poolName.test(name)) return;\n',
    replacement: '  if (name) return;\n',
  },
  {
    name: 'a default pool that is not there is refused',
    ...file,
    text: 'if (defaultPool !== undefined && !known.includes(defaultPool)) {',
    replacement: "if (defaultPool === '' && !known.includes(defaultPool)) {",
  },
  {
    name: 'several pools without a default one are refused',
    ...file,
    text: "if (!reader.has('defaultPool') && known.length > 1 && ",
    replacement: "if (!reader.has('defaultPool') && known.length > 99 && ",
  },
  {
    name: 'no pool at all is refused',
    file: 'src/config/side.ts',
    killer: 'src/config/side.test.ts',
    text: 'if (pools?.length === 0) {',
    replacement: 'if (pools?.length === -1) {',
  },
  {
    name: 'an overcommit below one is refused',
    ...pool,
    text: 'overcommit: number({ minimum: 1,',
    replacement: 'overcommit: number({ minimum: 0,',
  },
  {
    name: 'a backing file that is too small for XFS is refused',
    ...image,
    text: 'size: size(smallestFileBytes)',
    replacement: 'size: size(0n)',
  },
  {
    name: 'a reserve whose unit was forgotten is refused',
    ...pool,
    text: 'reserve: size(smallestReserveBytes)',
    replacement: 'reserve: size(0n)',
  },
  {
    name: 'an unknown key is refused',
    ...section,
    text: '      if (known.includes(key)) continue;\n',
    replacement: '      if (key) continue;\n',
  },
  {
    name: 'what is no section is refused',
    ...section,
    text: 'if (value !== undefined && value !== null && !isSection(value)) {',
    replacement: "if (value === '' && !isSection(value)) {",
  },
  {
    name: 'a key without a value is refused',
    ...section,
    text: '      if (value === null) throw',
    replacement: "      if (value === '') throw",
  },
  {
    name: 'a size beyond any disk is refused',
    ...values,
    text: 'if (bytes >= minimumBytes && bytes <= maximumBytes) return bytes;',
    replacement: 'if (bytes >= minimumBytes) return bytes;',
  },
  {
    name: 'a duration out of its bounds is refused',
    ...values,
    text: 'if (seconds >= minimumSeconds && seconds <= maximumSeconds) return seconds;',
    replacement: 'if (seconds >= -1) return seconds;',
  },
  {
    name: 'a word that is none of the allowed ones is refused',
    ...values,
    text: 'if (found !== undefined) return found;\n    const hint',
    replacement: 'if (found !== undefined || value) return found as T;\n    const hint',
  },
  {
    name: 'a relative path is refused',
    ...values,
    text: "typeof value !== 'string' || !value.startsWith('/') || value.includes('\\0')",
    replacement: "typeof value !== 'string'",
  },
  {
    name: 'a path that is written in two ways is one',
    ...values,
    text: "return posix.normalize(value).replace(/(?<=.)\\/+$/, '');",
    replacement: 'return value;',
  },
  {
    name: 'a number in the place of a text is refused',
    ...values,
    text: "if (typeof value === 'string') return value;\n  throw new WrongValue(`must be text",
    replacement: 'if (value) return String(value);\n  throw new WrongValue(`must be text',
  },
  {
    name: "the operator's socket beside others is refused",
    ...config,
    text: '  refuseNeighbours(adminSocketPath, { socketPath, registrationSocketPath }, reader);\n',
    replacement: '',
  },
  {
    name: 'the registration socket is not that of CSI',
    ...config,
    text: 'if (socketPath !== undefined && socketPath === registrationSocketPath) {',
    replacement: "if (socketPath === '' && socketPath === registrationSocketPath) {",
  },
  {
    name: 'the driver knows where to listen',
    ...config,
    text: "if (reader.text('CSI_ENDPOINT') === undefined) {",
    replacement: "if (reader.text('CSI_ENDPOINT') === ' ') {",
  },
  {
    name: 'a node id that is no label value is refused',
    ...config,
    text: 'fits: isLabel,',
    replacement: 'fits: (id) => id.length > 0,',
  },
  {
    name: 'a driver name that is no domain name is refused',
    ...config,
    text: 'fits: (name) => name.length <= 63 && driverNamePattern.test(name),',
    replacement: 'fits: (name) => name.length <= 63,',
  },
  {
    name: 'a driver name that is too long is refused',
    ...config,
    text: 'fits: (name) => name.length <= 63 && ',
    replacement: 'fits: (name) => ',
  },
  {
    name: 'a misspelled variable is refused',
    ...config,
    text: '  reader.refuseMisspelled();\n',
    replacement: '',
  },
  {
    name: 'an endpoint that is no unix socket is refused',
    ...environment,
    text: "if (!value.startsWith('unix:///')) {",
    replacement: "if (value === '') {",
  },
  {
    name: 'a socket path that is too long is refused',
    ...environment,
    text: 'if (Buffer.byteLength(absolute) > maximumSocketPathBytes) {',
    replacement: 'if (Buffer.byteLength(absolute) > 10 * maximumSocketPathBytes) {',
  },
  {
    name: 'a relative path of a variable is refused',
    ...environment,
    text: 'if (!isAbsolute(clean)) this',
    replacement: "if (clean === '') this",
    only: 'every mistake is named at once',
  },
  {
    name: 'the root as a directory of the driver is refused',
    ...environment,
    text: "else if (clean === '/') this",
    replacement: "else if (clean === '') this",
    only: 'every mistake is named at once',
  },
  {
    name: 'an address that is none is refused',
    ...environment,
    text: 'if (isHost && port !== undefined && Number(port) <= 65535) return',
    replacement: 'if (port !== undefined) return',
  },
];
