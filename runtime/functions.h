/* Functions that generated code calls by name, one number at a time: those that have no good vector form. C11.
 *
 * lgamma is at most 4 ulp off, digamma and trigamma 1 ulp, near digamma's zeros too. Where long double is no wider than
 * double, those of f64 are 3 ulp (digamma) and 4 ulp (trigamma) off, and digamma takes microseconds. */
#ifndef TENON_RUNTIME_FUNCTIONS_H
#define TENON_RUNTIME_FUNCTIONS_H

#ifdef __cplusplus
extern "C" {
#endif

double tenon_lgamma_f64(double x);
double tenon_digamma_f64(double x);
double tenon_trigamma_f64(double x);
float tenon_lgamma_f32(float x);
float tenon_digamma_f32(float x);
float tenon_trigamma_f32(float x);

#ifdef __cplusplus
}
#endif

#endif
