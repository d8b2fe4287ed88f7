// Package document takes the text out of attached files, for models that read no files: plain text in its many types,
// HTML, PDF, and the zipped XML of word processors, spreadsheets and slides.
//
// Files come from strangers. Every format is read with a limit on what comes in, on what it unpacks to, and on the text
// that goes out; nothing is fetched that a file refers to; scripts and formulas are text or nothing. A file that cannot be
// read is an error and never more than that.
//
// Whatever must be parsed is parsed by a process of its own (Work), with limits on memory and processor time that the kernel
// enforces: a PDF is a program, a packed part of 33 KB can be 32 MiB of XML, and no parser that is to be had keeps its memory
// within bounds on all input. The readers have bounds of their own, so that a hostile file is refused and not killed as a rule.
// The process is this binary itself, so there is nothing to install. A node runs maxWorkers of them at a time; further
// documents wait, before anything of them is in memory. Where there is no such process, all but plain text is ErrUnsupported.
//
// ledongthuc/pdf is the only maintained reader in Go that takes text out of a PDF, and has a permissive licence;
// golang.org/x/net/html reads HTML as browsers do.
package document
