import type { Mutant } from '../mutant.ts';

const parameters = {
  file: 'src/controller/volumes/parameters.ts',
  killer: 'src/controller/volumes/parameters.test.ts',
} as const;
const request = { file: 'src/controller/request.ts', killer: 'src/controller/request.test.ts' } as const;
const topology = {
  file: 'src/controller/topology.ts',
  killer: 'src/controller/topology.test.ts',
} as const;
const expand = { file: 'src/controller/volumes/expand.ts', killer: 'src/controller/volumes/expand.test.ts' } as const;
const page = { file: 'src/controller/listing/page.ts', killer: 'src/controller/listing/page.test.ts' } as const;
const limits = { file: 'src/csi/limits.ts', killer: 'src/csi/limits.test.ts' } as const;
const capability = { file: 'src/volume/capability.ts', killer: 'src/volume/capability.test.ts' } as const;
const record = { file: 'src/volume/record.ts', killer: 'src/volume/record.test.ts' } as const;
const changed = {
  file: 'src/pool/changed-ranges.ts',
  killer: 'src/pool/changed-ranges.test.ts',
} as const;
const metadata = {
  file: 'src/snapshot-metadata/service.ts',
  killer: 'test/grpc/snapshot-metadata.test.ts',
} as const;
const blocks = {
  file: 'src/pool/kinds/image/changed-blocks.ts',
  killer: 'test/grpc/snapshot-metadata.test.ts',
} as const;

const thinChanges = 'src/pool/kinds/lvm/thin/changes';
const thinBlocks = {
  file: `${thinChanges}/changed-blocks.ts`,
  killer: `${thinChanges}/changed-blocks.test.ts`,
} as const;
const hold = { file: `${thinChanges}/shared-hold.ts`, killer: `${thinChanges}/shared-hold.test.ts` } as const;
const note = { file: `${thinChanges}/snapshot-note.ts`, killer: `${thinChanges}/snapshot-note.test.ts` } as const;
const node = {
  file: 'src/kernel/block/thin-metadata.ts',
  killer: `${thinChanges}/changed-blocks.test.ts`,
} as const;

/** What is refused of a request, and what is told of blocks. */
export const requestMutants: readonly Mutant[] = [
  {
    name: 'an unknown parameter is refused',
    ...parameters,
    text: "  refuseUnknown(parameters, 'parameter', known, (key) => hintAt(key, known));\n",
    replacement: '',
  },
  {
    name: 'an unknown mutable parameter is refused',
    ...parameters,
    text: "  refuseUnknown(parameters, 'mutable parameter', mutableKeys);\n",
    replacement: '',
  },
  {
    name: 'an unknown parameter of a snapshot is refused',
    ...parameters,
    text: "  refuseUnknown(parameters, 'parameter', []);\n",
    replacement: '',
  },
  {
    name: 'an unknown provisioning is refused',
    ...parameters,
    text: '  if (provisioning === undefined) {\n',
    replacement: "  if (text === '') {\n",
  },
  {
    name: 'mutable parameters are right in themselves',
    ...request,
    text: '  parseMutableParameters(mutableParameters);\n',
    replacement: '',
  },
  {
    name: 'parameters that are overridden are right in themselves',
    ...request,
    text: '  parseParameters(request.parameters, ownParameters);\n',
    replacement: '',
  },
  {
    name: 'the topology of a request is right in itself',
    ...request,
    text: ' checkSegments(segments);\n',
    replacement: ' void segments;\n',
  },
  {
    name: 'a source has an id',
    ...request,
    text: "if (text === undefined || text === '') {",
    replacement: 'if (text === undefined) {',
  },
  {
    name: 'one volume is not block and mount',
    ...request,
    text: "if (fsTypes.has('block')) {",
    replacement: "if (fsTypes.has('xfs') && fsTypes.has('block')) {",
  },
  {
    name: 'one volume has one filesystem',
    ...request,
    text: 'if (named.length > 1) {',
    replacement: 'if (named.length > 2) {',
  },
  {
    name: 'mount flags of a request are not kept',
    ...request,
    text: 'fsType: named[0], mountFlags: [] }',
    replacement:
      "fsType: named[0], mountFlags: parsed.flatMap(({ access }) => (access.type === 'mount' ? access.mountFlags : [])) }",
  },
  {
    name: 'a topology key has the form of one',
    ...topology,
    text: '    if (!isKey(key)) throw',
    replacement: "    if (key === '') throw",
  },
  {
    name: 'a topology value has the form of one',
    ...topology,
    text: '    if (!label.test(value)) throw',
    replacement: "    if (value === 'x/y/z') throw",
  },
  {
    name: 'topology keys do not differ by case alone',
    ...topology,
    text: '    if (seen.has(key.toLowerCase())) throw',
    replacement: '    if (seen.has(key)) throw',
  },
  {
    name: 'a volume is made only where it is wanted',
    ...topology,
    text: 'return requirement.requisite.some((segments) => contains(segments, here));',
    replacement: 'return requirement.requisite.some((segments) => contains(segments, segments) || here);',
  },
  {
    name: 'a volume never shrinks',
    ...expand,
    text: 'const target = larger(record.sizeBytes, roundUp(required, multipleBytes));',
    replacement: 'const target = larger(1n, roundUp(required, multipleBytes));',
  },
  {
    name: 'a volume does not grow beyond its limit',
    ...expand,
    text: 'if (limit !== undefined && target > limit) {',
    replacement: 'if (limit !== undefined && required > limit) {',
  },
  {
    name: 'a volume does not grow beyond what any can have',
    ...expand,
    text: 'if (required > maximumVolumeBytes) {',
    replacement: 'if (required > 2n * maximumVolumeBytes) {',
  },
  {
    name: 'a token that no listing gave is refused',
    ...page,
    text: "if (startingToken !== '' && after === undefined) {",
    replacement: "if (startingToken === ' ' && after === undefined) {",
  },
  {
    name: 'a listing leaves out no pool that is not open',
    ...page,
    text: 'const pool = pools.getKnown(name);',
    replacement:
      'const pool = pools.known().find((each) => each.name === name);\n      if (pool === undefined) return [];',
    killer: 'test/grpc/controller-read.test.ts',
    only: 'LV04',
  },
  {
    name: 'a string of a request is no longer than CSI allows',
    ...limits,
    text: '    if (isLonger(text, limit)) throw',
    replacement: '    if (isLonger(text, limit * 10_000)) throw',
  },
  {
    name: 'strings are measured in bytes',
    ...limits,
    text: 'return text.length > limit || Buffer.byteLength(text) > limit;',
    replacement: 'return text.length > limit;',
  },
  {
    name: 'names have no control characters',
    ...limits,
    text: "  ['name', forbiddenInName],\n",
    replacement: '',
  },
  {
    name: 'a map of a request is no larger than CSI allows',
    ...limits,
    text: 'if (bytes > mapBytes) throw',
    replacement: 'if (bytes > 10_000 * mapBytes) throw',
  },
  {
    name: 'the keys of a map count',
    ...limits,
    text: 'bytes += Buffer.byteLength(key) + ',
    replacement: 'bytes += ',
  },
  {
    name: 'a list of a request is no larger than CSI allows',
    ...limits,
    text: 'if (bytes > limit) throw',
    replacement: 'if (bytes > limit * 10_000) throw',
  },
  {
    name: 'numbers of a request are not negative',
    ...limits,
    text: '&& number < 0) {',
    replacement: '&& number < -(2n ** 70n)) {',
  },
  {
    name: 'nested messages have limits, too',
    ...limits,
    text: 'return field.message === undefined ? undefined',
    replacement: 'return field.name.length >= 3 || field.message === undefined ? undefined',
  },
  {
    name: 'the elements of a list have limits, too',
    ...limits,
    text: 'if (Array.isArray(list)) for (const value of list) check(value);',
    replacement: 'if (!Array.isArray(list)) check(list);',
  },
  {
    name: 'an access mode allows no more than the volume was made for',
    ...capability,
    text: 'made.accessModes.some((each) => usableAs[each].includes(mode))',
    replacement: 'made.accessModes.length > 0',
  },
  {
    name: 'a reader-only volume takes no writer',
    ...capability,
    text: "SINGLE_NODE_READER_ONLY: ['SINGLE_NODE_READER_ONLY'],",
    replacement: 'SINGLE_NODE_READER_ONLY: accessModes,',
  },
  {
    name: 'a single writer is not one of many',
    ...capability,
    text: "SINGLE_NODE_SINGLE_WRITER: ['SINGLE_NODE_WRITER', 'SINGLE_NODE_SINGLE_WRITER', 'SINGLE_NODE_READER_ONLY'],",
    replacement: 'SINGLE_NODE_SINGLE_WRITER: accessModes,',
  },
  {
    name: 'a volume is used as what it holds',
    ...capability,
    text: "      return 'it is a raw block volume and cannot be mounted as a filesystem';",
    replacement: '      return undefined;',
  },
  {
    name: 'a record of a newer format is not read',
    ...record,
    text: '  format: z.literal(recordFormat),',
    replacement: '  format: z.int(),',
  },
  {
    name: 'a record has an id of ours',
    ...record,
    text: "  if (id === undefined) throw unreadable(where, 'its id has the wrong shape');\n",
    replacement:
      "  if (id === undefined) return parseRecord(text.replace(fields.id, 'vol-'.padEnd(30, 'a')), where);\n",
  },
  {
    name: 'a record has a source of ours',
    ...record,
    text: `  throw unreadable(where, "its source's id has the wrong shape");\n`,
    replacement: '  return source as VolumeSource;\n',
  },
  {
    name: 'a map of extents that goes on nowhere is an error',
    ...changed,
    text: 'if (after.untilBytes <= fromBytes) throw',
    replacement: 'if (after.untilBytes <= fromBytes) break;\n    if (after.untilBytes < 0n) throw',
  },
  {
    name: 'nobody who has gone is told of blocks',
    ...changed,
    text: '    signal.throwIfAborted();\n',
    replacement: '',
  },
  {
    name: 'blocks at another place have changed',
    ...changed,
    text: 'return address !== undefined && address === addressAt(target.data, at);',
    replacement: 'return address !== undefined;',
  },
  {
    name: 'blocks whose place nobody knows have changed',
    ...changed,
    text: 'return address !== undefined && address === addressAt(target.data, at);',
    replacement: 'return address === addressAt(target.data, at);',
  },
  {
    name: 'what was never written reads as zeros',
    ...changed,
    text: '(!extent.isWritten || endOf(extent) <= at)',
    replacement: 'endOf(extent) <= at',
  },
  {
    name: 'only raw block volumes have changed-block data',
    ...metadata,
    text: "  if (content.type === 'block') return;\n",
    replacement: '  if (content.type !== undefined) return;\n',
    only: 'SM05',
  },
  {
    name: 'snapshots of two volumes are not compared',
    ...metadata,
    text: '  if (older.sourceId !== newer.sourceId) {\n',
    replacement: '  if (older.sourceId === older.id.slice(1)) {\n',
    only: 'SM05',
  },
  {
    name: 'a base is older than its target',
    ...metadata,
    text: 'older.id === newer.id || Date.parse(older.createdAt) > Date.parse(newer.createdAt)',
    replacement: 'older.id === newer.id',
    only: 'SM05',
  },
  {
    name: 'a snapshot is not compared with itself',
    ...metadata,
    text: 'older.id === newer.id || ',
    replacement: '',
    only: 'SM05',
  },
  {
    name: 'no delta where the places of blocks tell nothing',
    ...metadata,
    text: "if (target.pool.traits.changedBlocks !== 'delta') {",
    replacement: "if (target.pool.name === '') {",
    only: 'SM04',
  },
  {
    name: 'an offset lies in the volume',
    ...metadata,
    text: 'if (starting_offset >= 0n && starting_offset <= sizeBytes) return',
    replacement: 'if (starting_offset >= 0n) return',
    only: 'SM03',
  },
  {
    name: 'a snapshot that is being made is not said to be none',
    ...metadata,
    text: 'if (id !== undefined && objects.busy(id)) {',
    replacement: 'if (id !== undefined && objects.busy(text.slice(1))) {',
    only: 'SM15',
  },
  {
    name: 'only XFS tells by places what changed',
    ...blocks,
    text: "return type === filesystemType.xfs ? 'delta' : 'allocated';",
    replacement: "return type > 0n * filesystemType.xfs ? 'delta' : 'allocated';",
    only: 'SM04',
  },
  {
    name: 'who needs newer metadata does not get what is there',
    ...hold,
    text: '(!isUsable || isOld || present.number <= after)',
    replacement: '(!isUsable || isOld)',
    only: 'waits for those who have begun',
  },
  {
    name: 'metadata is not given back while somebody reads it',
    ...hold,
    text: 'if (hold.users > 0) {',
    replacement: 'if (hold.users > 99) {',
    only: 'waits for those who have begun',
  },
  {
    name: 'old metadata is given back',
    ...hold,
    text: '(!isUsable || isOld || present.number <= after)',
    replacement: '(!isUsable || present.number <= after)',
    only: 'taken anew when it is old',
  },
  {
    name: "a metadata snapshot of somebody else's is not released",
    ...note,
    text: ' || note.block === snapshotBlock',
    replacement: ' || note.block !== undefined',
    only: 'released only if',
  },
  {
    name: 'a thin snapshot that is gone is looked for in each metadata snapshot',
    ...thinBlocks,
    text: 'if (number !== checked)',
    replacement: 'if (checked === undefined)',
    only: 'SM02',
  },
  {
    name: 'what a base has behind its end is nothing',
    ...thinBlocks,
    text: 'base !== undefined && fromBytes < base.record.sizeBytes;',
    replacement: 'base !== undefined;',
    only: 'SM14 SM06',
  },
  {
    name: 'a block of metadata has its checksum',
    ...node,
    text: 'return bytes.readUInt32LE(0) === checksumOf(bytes, salt) && bytes',
    replacement: 'return bytes',
    only: 'SM12',
  },
];
