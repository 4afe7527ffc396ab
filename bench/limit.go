package bench

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
)

// The sources of the limit: a C program that shares no code with the broker and
// does only the least that one must. They travel with the binary, so that the
// two that are compared are of one commit.
//
//go:embed limit/*.c limit/*.h
var limitSources embed.FS

// ErrNoCompiler says that the limit cannot be built here.
var ErrNoCompiler = errors.New("no C compiler (cc) on PATH")

// limitFlags are those of `make limit`.
var limitFlags = []string{"-O2", "-std=gnu11", "-Wall", "-Wextra", "-pthread"}

// LimitBinary returns the limit's program, which it builds from the sources
// that this binary carries unless the cache has it already. Without a C
// compiler the error is ErrNoCompiler.
func LimitBinary(ctx context.Context) (string, error) {
	cache, err := CacheDir()
	if err != nil {
		return "", err
	}
	names, err := fs.Glob(limitSources, "limit/*")
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	for _, name := range names {
		data, err := limitSources.ReadFile(name)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(sum, "%s %d\n%s", name, len(data), data)
	}
	binary := filepath.Join(cache, "limit-"+hex.EncodeToString(sum.Sum(nil)[:8]))
	if _, err := os.Stat(binary); err == nil {
		return binary, nil
	}
	return binary, buildLimit(ctx, cache, binary, names)
}

func buildLimit(ctx context.Context, cache, binary string, names []string) error {
	compiler, err := exec.LookPath("cc")
	if err != nil {
		return ErrNoCompiler
	}
	work, err := os.MkdirTemp(cache, "limit-build-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	if err := os.CopyFS(work, limitSources); err != nil {
		return err
	}
	built := filepath.Join(work, "limit.out")
	args := append([]string{"-o", built}, limitFlags...)
	for _, name := range names {
		if filepath.Ext(name) == ".c" {
			args = append(args, filepath.Join(work, name))
		}
	}
	if out, err := exec.CommandContext(ctx, compiler, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("build the limit: %s: %w\n%s", compiler, err, out)
	}
	// The rename publishes whole programs only.
	return os.Rename(built, binary)
}
