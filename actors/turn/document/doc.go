// Package document takes the text out of attached files, for models that read no files: plain text in its many types,
// HTML, PDF, and the zipped XML of word processors, spreadsheets and slides.
//
// Files come from strangers. Every format is read with a limit on what comes in, on what it unpacks to, and on the text
// that goes out; nothing is fetched that a file refers to; scripts and formulas are text or nothing. A file that cannot be
// read is an error and never more than that.
//
// A PDF is read by a process of its own (Work), with limits on memory and time that the kernel enforces: the format is a
// program, and no reader of it that is to be had keeps its memory within bounds. The process is this binary itself, so there
// is nothing to install. Where there is no such process, a PDF is ErrUnsupported.
//
// ledongthuc/pdf is the only maintained reader in Go that takes text out of a PDF, and has a permissive licence;
// golang.org/x/net/html reads HTML as browsers do.
package document
