import type { NvmeNamespace, NvmeSubsystem } from '../../../kernel/block/nvme.ts';
import type { NvmeContext } from './context.ts';

/** The devices of a subsystem that are the volume, by the identity that the target gave the namespace. */
export function namespacesOf(
  { namespaces }: Pick<NvmeSubsystem, 'namespaces'>,
  { identity: { digits, kind } }: Pick<NvmeContext, 'identity'>,
): NvmeNamespace[] {
  return namespaces.filter((each) => each[kind] === digits);
}
