/** The end of a block with `using`, as esbuild writes it for a Node that does not know `using`. */
const blockEnd =
  /catch\((?<caught>_\d*)\)\{var (?<error>_error\d*)=\k<caught>,(?<hasError>_hasError\d*)=!0\}finally\{(?<promise>var _promise\d*=)?__callDispose\((?<stack>_stack\d*),\k<error>,\k<hasError>\)/g;

/**
 * Mends the blocks with `using` in a bundle of esbuild 0.28. It keeps the error of a block in a variable of the whole function, and never
 * clears that: in a loop that catches errors, each later round ends with the error of an earlier one. The mended block keeps it in the
 * list of what it disposes of, which each round makes afresh.
 * @throws Error if a block has another form
 */
export function mendUsing(bundle: string): string {
  const blocks = bundle.match(/__callDispose\(_stack/g)?.length ?? 0;
  const known = bundle.match(blockEnd)?.length ?? 0;
  if (known !== blocks) {
    throw new Error(`${blocks - known} blocks with using have a form that scripts/using.ts does not know`);
  }
  return bundle.replaceAll(
    blockEnd,
    'catch($<caught>){$<stack>.error={it:$<caught>}}finally{$<promise>__callDispose($<stack>,$<stack>.error?.it,!!$<stack>.error)',
  );
}
