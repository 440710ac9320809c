;; The kernel of outline.ts: what a JSON document (RFC 8259) shows without being parsed. It looks at 64 bytes at a time and
;; never at one alone: an i64 has a bit for each, the lowest for the first. How quotes and escapes are found so is from
;; Langdale and Lemire, "Parsing Gigabytes of JSON per Second", section 3.1.

(module
  ;; A page for the bytes, and one for the zeros behind them, which are nothing in JSON.
  (memory (export "memory") 2)

  ;; Outside of strings.
  (global $colons (export "colons") (mut i32) (i32.const 0))
  ;; How many brackets and braces were open at once, at most.
  (global $depth (export "depth") (mut i32) (i32.const 0))
  ;; 1: there is an escape \u.
  (global $hasUnicodeEscape (export "hasUnicodeEscape") (mut i32) (i32.const 0))

  ;; What the blocks so far leave to the next: how many brackets are open, all ones inside of a string, and 1 where its
  ;; first byte is escaped.
  (global $open (mut i32) (i32.const 0))
  (global $inString (mut i64) (i64.const 0))
  (global $isEscaped (mut i64) (i64.const 0))

  ;; Begins a document.
  (func (export "begin")
    (global.set $colons (i32.const 0))
    (global.set $depth (i32.const 0))
    (global.set $hasUnicodeEscape (i32.const 0))
    (global.set $open (i32.const 0))
    (global.set $inString (i64.const 0))
    (global.set $isEscaped (i64.const 0)))

  ;; Goes on with so many bytes, which stand at 0. Only the last of a document may be no multiple of 64.
  (func (export "scan") (param $length i32)
    (local $at i32)
    (memory.fill (local.get $length) (i32.const 0) (i32.const 64))
    (block $end
      (loop $next
        (br_if $end (i32.ge_u (local.get $at) (local.get $length)))
        (call $scanBlock (local.get $at))
        (local.set $at (i32.add (local.get $at) (i32.const 64)))
        (br $next))))

  (func $scanBlock (param $at i32)
    (local $outside i64)
    (local.set $outside (i64.xor (call $insideStrings (local.get $at)) (i64.const -1)))
    (global.set $colons
      (i32.add
        (global.get $colons)
        (i32.wrap_i64
          (i64.popcnt (i64.and (local.get $outside) (call $equal (local.get $at) (i32.const 0) (i32.const 0x3a)))))))
    ;; 0x20 makes braces of brackets.
    (call $nest
      (i64.and (local.get $outside) (call $equal (local.get $at) (i32.const 0x20) (i32.const 0x7b)))
      (i64.and (local.get $outside) (call $equal (local.get $at) (i32.const 0x20) (i32.const 0x7d)))))

  ;; The bytes of strings, with their first quotes.
  (func $insideStrings (param $at i32) (result i64)
    (local $bits i64)
    (local.set $bits
      (i64.and
        (call $equal (local.get $at) (i32.const 0) (i32.const 0x22))
        (i64.xor (call $escaped (local.get $at)) (i64.const -1))))
    ;; Each becomes the parity of the quotes up to it.
    (local.set $bits (i64.xor (local.get $bits) (i64.shl (local.get $bits) (i64.const 1))))
    (local.set $bits (i64.xor (local.get $bits) (i64.shl (local.get $bits) (i64.const 2))))
    (local.set $bits (i64.xor (local.get $bits) (i64.shl (local.get $bits) (i64.const 4))))
    (local.set $bits (i64.xor (local.get $bits) (i64.shl (local.get $bits) (i64.const 8))))
    (local.set $bits (i64.xor (local.get $bits) (i64.shl (local.get $bits) (i64.const 16))))
    (local.set $bits (i64.xor (local.get $bits) (i64.shl (local.get $bits) (i64.const 32))))
    (local.set $bits (i64.xor (local.get $bits) (global.get $inString)))
    (global.set $inString (i64.shr_s (local.get $bits) (i64.const 63)))
    (local.get $bits))

  ;; The bytes that stand behind an odd number of backslashes.
  (func $escaped (param $at i32) (result i64)
    (local $backslashes i64)
    (local $behind i64)
    (local $oddStarts i64)
    (local $sum i64)
    (local.set $backslashes (call $equal (local.get $at) (i32.const 0) (i32.const 0x5c)))
    (if (i64.eqz (i64.or (local.get $backslashes) (global.get $isEscaped)))
      (then (return (i64.const 0))))
    ;; One that is escaped escapes nothing.
    (local.set $backslashes (i64.and (local.get $backslashes) (i64.xor (global.get $isEscaped) (i64.const -1))))
    (local.set $behind (i64.or (i64.shl (local.get $backslashes) (i64.const 1)) (global.get $isEscaped)))
    ;; Where a run of them begins at an odd place, the sum carries a bit to behind its end; the other runs stay as they are.
    ;; So it is known of each whether it ends on an odd place or an even one.
    (local.set $oddStarts
      (i64.and
        (i64.and (local.get $backslashes) (i64.const 0xaaaaaaaaaaaaaaaa))
        (i64.xor (local.get $behind) (i64.const -1))))
    (local.set $sum (i64.add (local.get $oddStarts) (local.get $backslashes)))
    (global.set $isEscaped (i64.extend_i32_u (i64.lt_u (local.get $sum) (local.get $oddStarts))))
    (local.set $behind
      (i64.and
        (local.get $behind)
        (i64.xor (i64.shl (local.get $sum) (i64.const 1)) (i64.const 0x5555555555555555))))
    (if (i64.ne
          (i64.and (local.get $behind) (call $equal (local.get $at) (i32.const 0) (i32.const 0x75)))
          (i64.const 0))
      (then (global.set $hasUnicodeEscape (i32.const 1))))
    (local.get $behind))

  ;; Takes the opening and the closing brackets of a block.
  (func $nest (param $opening i64) (param $closing i64)
    (local $brackets i64)
    (local $first i64)
    (local $deepest i32)
    (local.set $deepest (i32.add (global.get $open) (i32.wrap_i64 (i64.popcnt (local.get $opening)))))
    (if (i32.le_s (local.get $deepest) (global.get $depth))
      (then
        (global.set $open (i32.sub (local.get $deepest) (i32.wrap_i64 (i64.popcnt (local.get $closing)))))
        (return)))
    ;; It may be deeper here than anywhere before: one after the other.
    (local.set $brackets (i64.or (local.get $opening) (local.get $closing)))
    (block $end
      (loop $next
        (br_if $end (i64.eqz (local.get $brackets)))
        (local.set $first (i64.and (local.get $brackets) (i64.sub (i64.const 0) (local.get $brackets))))
        (local.set $brackets (i64.xor (local.get $brackets) (local.get $first)))
        (if (i64.eqz (i64.and (local.get $opening) (local.get $first)))
          (then (global.set $open (i32.sub (global.get $open) (i32.const 1))))
          (else (global.set $open (i32.add (global.get $open) (i32.const 1)))))
        (if (i32.gt_s (global.get $open) (global.get $depth))
          (then (global.set $depth (global.get $open))))
        (br $next))))

  ;; Those of the 64 bytes at $at that equal $byte, once they have the bits of $with too.
  (func $equal (param $at i32) (param $with i32) (param $byte i32) (result i64)
    (i64.or
      (i64.or
        (call $equal16 (v128.load offset=0 (local.get $at)) (local.get $with) (local.get $byte))
        (i64.shl
          (call $equal16 (v128.load offset=16 (local.get $at)) (local.get $with) (local.get $byte))
          (i64.const 16)))
      (i64.or
        (i64.shl
          (call $equal16 (v128.load offset=32 (local.get $at)) (local.get $with) (local.get $byte))
          (i64.const 32))
        (i64.shl
          (call $equal16 (v128.load offset=48 (local.get $at)) (local.get $with) (local.get $byte))
          (i64.const 48)))))

  (func $equal16 (param $bytes v128) (param $with i32) (param $byte i32) (result i64)
    (i64.extend_i32_u
      (i8x16.bitmask
        (i8x16.eq
          (v128.or (local.get $bytes) (i8x16.splat (local.get $with)))
          (i8x16.splat (local.get $byte)))))))
