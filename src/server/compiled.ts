import module from 'node:module';

/**
 * Stores what Node has compiled, where NODE_COMPILE_CACHE says so. Node itself does that at an orderly end, which the
 * driver does not wait for (`exitAtOnce`).
 */
export function keepCompiled(): void {
  // Not before Node 22.10.
  if ('flushCompileCache' in module) module.flushCompileCache();
}
