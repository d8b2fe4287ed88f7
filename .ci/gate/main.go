// Command gate runs all tests of the project so that only a defect turns them red: everything is built before the first test starts, the
// tests run in tiers of which each has the machine that it needs, and a test that failed is run again by itself. It stands in the place of
// gotestsum, which builds a package again to repeat a test of it, knows no tiers, and repeats a panic like any other failure.
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := realMain(ctx)
	stop()
	os.Exit(code)
}

func realMain(ctx context.Context) int {
	g := gate{out: os.Stdout}
	only := flag.String("run", "", "run only the top-level tests that match")
	flag.StringVar(&g.tier, "tier", "", "run only these tiers: 4, or 1234")
	flag.StringVar(&g.dir, "dir", filepath.Join("bin", "gate"), "folder for test binaries and logs; it is emptied first")
	flag.IntVar(&g.again, "again", 2, "how often a failed test is run again by itself")
	flag.IntVar(&g.flaky, "flaky", 3, "how many tests may pass only when they are run again")
	flag.Parse()
	if *only != "" {
		expression, err := regexp.Compile(*only)
		if err != nil {
			fmt.Fprintln(os.Stderr, "gate:", err)
			return 2
		}
		g.only = expression
	}
	ok, err := g.run(ctx, flag.Args())
	if err != nil {
		fmt.Fprintln(os.Stderr, "gate:", err)
	}
	if err != nil || !ok {
		return 1
	}
	return 0
}

// run builds, runs the tiers, runs again what failed and reports. It returns whether all is well; an error means that it could not be told.
func (g *gate) run(ctx context.Context, patterns []string) (bool, error) {
	if len(patterns) == 0 {
		patterns = []string{"./..."}
	}
	began := time.Now()
	units, err := g.prepare(ctx, patterns)
	if err != nil {
		return false, err
	}
	where := "where the system has them"
	if g.inMemory = roomInMemory(ctx); g.inMemory {
		where = "in memory, but those of " + machines
	}
	fmt.Fprintf(g.out, "built in %s; files of tests are %s\n", since(began), where)
	for _, t := range tiers() {
		if !strings.Contains(cmp.Or(g.tier, t.name), strings.TrimPrefix(t.name, "tier ")) {
			continue
		}
		if err := g.runTier(ctx, t, units); err != nil {
			return false, err
		}
	}
	return g.conclude(ctx, began)
}

// runTier runs the units of a tier, as many at once as the tier says, and prints what took longest.
func (g *gate) runTier(ctx context.Context, t tier, units []unit) error {
	var own []unit
	for _, u := range units {
		if u.tier == t.name {
			u.beside = t.beside
			own = append(own, u)
		}
	}
	if len(own) == 0 {
		return nil
	}
	fmt.Fprintf(g.out, "\n== %s: %s\n", t.name, t.what)
	began, before := time.Now(), processorTime()
	queue := make(chan unit)
	done := make(chan outcome)
	for range t.atOnce {
		go func() {
			for u := range queue {
				done <- g.execute(ctx, u)
			}
		}()
	}
	go func() {
		defer close(queue)
		for _, u := range own {
			queue <- u
		}
	}()
	var all []outcome
	for range own {
		o := <-done
		g.printUnit(o)
		all = append(all, o)
	}
	g.outcomes = append(g.outcomes, all...)
	fmt.Fprintf(g.out, "== %s: %s%s\n", t.name, since(began), processorTime().since(before))
	if err := g.report(t, all); err != nil {
		return err
	}
	return ctx.Err()
}

func since(began time.Time) time.Duration { return time.Since(began).Round(100 * time.Millisecond) }
